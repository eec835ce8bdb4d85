"""A session that pays as it goes: each answer within 2 % of the records, at the least cost it can find.

Run it twice with a file in place of None: the second run goes on with the first, for nothing.
"""

import qrelease as qr

table = qr.data.adult(["age", "sex", "education", "hours-per-week", "income"])
budget = qr.ApproxDP(1.0, 1e-9)
curator = qr.Curator(table, qr.Ledger.open(None, budget, dataset="adult"))

questions = [
    "sex = 'Female' and income = '>50K'",
    "income = '>50K' and not sex = 'Male'",  # the same query in other words: free
    *(f"age in {age}..{age + 9} and income = '>50K'" for age in range(20, 70, 10)),
]

with curator.open(qr.Online(alpha=0.02, beta=0.001), cost=budget, key="analysts") as session:
    for question in questions:
        quote = session.quote(question)
        answer = session.answer(question)
        print(f"{question:45} {answer}  quoted: {quote.cost or 'free'}")

    # All cells of a marginal cost what one of them does. Many such questions, and the session buys a synopsis.
    for column in ("age", "education", "hours-per-week"):
        cells = session.answers(qr.Workload.marginals(table.domain, [[column, "sex", "income"]]))
        sources = {answer.source for answer in cells}
        print(f"{column} * sex * income: {len(cells)} answers, {', '.join(sorted(sources))}")

    print(f"\nspent {session.spent} of {session.cost}; the hypothesis is a table that costs nothing:")
    women = qr.Workload.predicates(table.domain, "sex = 'Female' and hours-per-week >= 40")
    print(f"women who work 40 hours or more: about {session.synopsis.answer(women)[0]:,.0f}")
