"""Cases of the conformance suite: vectors, tests of hypotheses, and learning."""

from qrelease.privacy.costs import ZCDP, PureDP
from qrelease.statistics.adassp import AdaSSP
from qrelease.statistics.chi_squared import FitTest, IndependenceTest
from qrelease.statistics.lipschitz import LipschitzTester
from qrelease.statistics.regression import FunctionalMechanism, NoisyDescent
from qrelease.statistics.sparse_mean import PeelingMean, SparseMean
from qrelease.statistics.uniformity import EfficientTester, GaussianMeanTest, UniformityTest
from qrelease.statistics.vector_mean import TruncatedMean, VectorMean
from tests.statistics.conformance import DELTA, REPLACE_ONE, Case

MORE = [
    Case(IndependenceTest("x", "y"), refusals=(IndependenceTest("x", "x"), IndependenceTest("x", "none"))),
    Case(FitTest("y", (1, 2, 3, 2, 1)), refusals=(FitTest("y", (1, 1)),)),
    Case(GaussianMeanTest(("x", "y"), (5.7, 2.0), (4.0, 2.0)), refusals=(GaussianMeanTest(("x",), (5.0,), (0.0,)),)),
    Case(UniformityTest(("z",)), refusals=(UniformityTest(("x",)), UniformityTest(()))),
    Case(
        EfficientTester(("z",), 0.5),
        DELTA,
        (EfficientTester(("z",), 0.0), EfficientTester(("y",), 0.5)),
        REPLACE_ONE,
        least=4000,
    ),
    Case(LipschitzTester(("z",), 0.5), PureDP(1.0), (LipschitzTester(("z",), 0.5, 0),), REPLACE_ONE, least=1000),
    Case(TruncatedMean(("x", "y")), refusals=(TruncatedMean(("x", "x")), TruncatedMean(("x",), 0.1))),
    Case(VectorMean(("x", "y")), ZCDP(1.0), refusals=(VectorMean(()), VectorMean(("none",)))),
    Case(AdaSSP("y", ("x",)), ZCDP(1.0), refusals=(AdaSSP("y", ("y",)), AdaSSP("none"))),
    Case(AdaSSP("y", ("x",), refinements=0), ZCDP(1.0), refusals=(AdaSSP("y", refinements=-1),)),
    Case(FunctionalMechanism("y", ("x",)), refusals=(FunctionalMechanism("y", positive="9"),)),
    Case(NoisyDescent("y", ("x",), loss="huber", epochs=3), ZCDP(1.0), refusals=(NoisyDescent("y"),)),
    Case(SparseMean(1), refusals=(SparseMean(4), SparseMean(0))),
    Case(PeelingMean(1), ZCDP(1.0), refusals=(PeelingMean(4),)),
]
