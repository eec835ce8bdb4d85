"""Single numbers of a table, each for one charge of one budget: a mean, quantiles, and a regression coefficient."""

import numpy as np

import qrelease as qr


def slope(frame: dict[str, np.ndarray]) -> float:
    """Of pay by years, on one block of the records: any function of a frame will do."""
    return float(np.polyfit(frame["years"], frame["pay"], 1)[0])


if __name__ == "__main__":
    years = np.random.default_rng(0).integers(0, 40, 20_000, np.uint8)
    pay = 20 + years + np.random.default_rng(1).integers(0, 15, 20_000, np.uint8)
    table = qr.Table(qr.Domain.coded({"years": 40, "pay": 1000}), (years, pay))
    with qr.Ledger.open(None, qr.PureDP(2.0), dataset="payroll") as ledger:
        curator = qr.Curator(table, ledger)
        for statistic in (
            qr.ClippedMean("pay"),
            qr.Quantile("pay", 0.9),
            qr.RecursiveQuantiles("years", (0.25, 0.5, 0.75)),
            qr.SampleAndAggregate(("years", "pay"), f"{__file__}:slope", low=0, high=5),
        ):
            print(curator.estimate(statistic, qr.PureDP(0.5)), end="\n\n")
        print(f"spent {ledger.spent}")
