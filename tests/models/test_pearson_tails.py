import numpy as np
from scipy.stats import norm, pearson3

from invariance.models.invariance_test import pearson_tails


def test_tails_are_those_of_a_pearson_iii_law_of_either_skewness():
    z = np.array([-5.0, -2.0, -0.3, 0.0, 0.7, 2.5, 12.0])
    for skew in (2.5, 0.4, 0.01, -0.01, -0.4, -2.5):
        np.testing.assert_allclose(
            pearson_tails(z, np.full(len(z), skew)), pearson3(skew).sf(z), rtol=1e-7, atol=1e-300
        )
    np.testing.assert_allclose(pearson_tails(z, np.zeros(len(z))), norm.sf(z), rtol=1e-12)
