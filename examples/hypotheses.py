"""Are two columns independent? A χ² test under differential privacy, and what ten such tests cost together.

python examples/hypotheses.py
"""

import qrelease as qr
from qrelease.privacy.account import Part, account, best

table = qr.data.adult()
cost = qr.PureDP(0.05)
pairs = [("sex", "income"), ("race", "sex"), ("workclass", "native-country"), ("age", "sex")]
with qr.Ledger.open(None, qr.PureDP(1.0), dataset="adult") as ledger:
    curator = qr.Curator(table, ledger)
    for first, second in pairs:
        found = curator.estimate(qr.IndependenceTest(first, second), cost)
        print(f"{first} and {second}: p = {found.value['p_value']:.3f}, {cost}")
    print(f"spent {ledger.spent:.3g} of {ledger.total}")
for total in account([Part("epsilon", 0.05, times=100)], 1e-9):
    print(f"a hundred of them by {total.rule}: {total.cost if total.cost is None else format(total.cost, '.4g')}")
print(f"best: {best(account([Part('epsilon', 0.05, times=100)], 1e-9)).rule}")
