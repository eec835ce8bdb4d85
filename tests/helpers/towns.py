"""Records of towns and hours, and a schema that leaves their bins and categories to be learned."""

import numpy as np
import pandas as pd

from qrelease.data.domain import Attribute, Domain

HOURS = Attribute("hours", "number", within=(0, 999), step=1, learn=8, missing=("",), outside="clip")
TOWN = Attribute("town", "category", learn=5, missing=("", "NA"))
SEX = Attribute("sex", "category", categories=("f", "m"))
OPEN = Domain((HOURS, TOWN, SEX))


def frame(records=2000):
    rng = np.random.default_rng(1)
    town = np.array(["Ur", "Nippur", "Uruk", "Kish", "NA"])[rng.choice(5, records, p=[0.5, 0.3, 0.1, 0.05, 0.05])]
    hours = np.where(rng.random(records) < 0.5, 40, rng.integers(0, 100, records))
    made = pd.DataFrame({"hours": hours, "town": town, "sex": np.where(rng.random(records) < 0.5, "f", "m")})
    made.loc[0, "town"] = "Eridu, where one person lives"
    return made
