"""Mistakes that a refactoring could make: the tests must see each of them.

A mutant is one change of one snippet in a copy of the sources. It is killed when a test that covers
it fails. Where code or tests move, `file`, `find`, `replace` and `tests` move with them; name,
behaviour and `old` stay.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = "invariance"
LONGEST = (
    900.0  # seconds that the covering tests of a mutant may take: it may have made an endless loop
)
# exit codes of pytest; others mean that tests were not run
PASSED = 0
FAILED = 1


class Mutant(NamedTuple):
    """name, behaviour : what goes wrong; old : the file in the layout of 0.1.0, or "new"
    file, find, replace : the snippet, which occurs once in the file of the package, and what takes
        its place
    tests : what covers it, as pytest takes it; survives : why no test sees it, if none does
    """

    name: str
    behaviour: str
    old: str
    file: str
    find: str
    replace: str
    tests: tuple[str, ...]
    survives: str = ""


MUTANTS = (
    # ---- data and where it lies
    Mutant(
        "grades-taken-for-counts",
        "an outcome of grades 0 to 4 is fitted as a count, and nobody is warned",
        old="new",
        file="data/outcomes.py",
        find="    if rows_above(y) < EXPECTED_ABOVE and not _GRADES.search(name):\n",
        replace="    if not _GRADES.search(name):\n",
        tests=("tests/data/test_outcomes.py::test_grades_are_doubted_and_counts_are_not",),
    ),
    Mutant(
        "codes-in-the-outcome",
        "an outcome of 0, 1 and 9 for unknown is fitted as a number, and check finds nothing",
        old="new",
        file="data/look.py",
        find='            if first and "na" in setting_of(first[0]):\n',
        replace="            if not first:\n",
        tests=("tests/data/test_findings.py::test_codes_of_missing_outcomes_are_found",),
    ),
    Mutant(
        "moved-by-too-few-rows",
        "of environments with two rows it is claimed that they move a feature",
        old="new",
        file="decisions/decision.py",
        find="    if (model.observed.counts < SMALLEST_ENVIRONMENT).any():\n",
        replace="    if (model.observed.counts < 1).any():\n",
        tests=(
            "tests/decisions/test_verdict_lines.py"
            "::test_what_environments_move_is_not_claimed_of_too_few_rows",
        ),
    ),
    Mutant(
        "selections-repeated-after-the-limit",
        "after --time-limit selections are repeated by searches that are cut short",
        old="new",
        file="prediction/new_environments.py",
        find="            if out_of_time(_LEAVING_OUT):\n                break\n",
        replace="",
        tests=(
            "tests/cli/test_fit.py::test_after_a_time_limit_no_selection_is_repeated_to_save_a_model",
        ),
    ),
    Mutant(
        "half-of-the-environments-left-out",
        "errors without those environments that were left out before a limit on the time count as "
        "those of all",
        old="new",
        file="prediction/new_environments.py",
        find="    if out_of_time(_LEAVING_OUT):\n        selected.clear()",
        replace="    if False:\n        selected.clear()",
        tests=(
            "tests/cli/test_fit.py::test_a_time_limit_that_passes_on_the_way_leaves_out_no_environment",
        ),
    ),
    Mutant(
        "nothing-selected-after-the-limit",
        "after --time-limit the subset of least risk is the empty one",
        old="new",
        file="decisions/rules.py",
        find=(
            "            if moves is exchanges and out_of_time(\n"
            '                "exchanges of features in the search for the subset of least risk"\n'
            "            ):\n"
        ),
        replace='            if out_of_time("exchanges of features in the search for the subset of least risk"):\n',
        tests=("tests/decisions/test_fallback.py::test_exchanges_end_with_the_time_and_are_named",),
    ),
    Mutant(
        "large-files-refuse-options",
        "a large file is refused with an option that needs the whole table, though nobody asked "
        "for pieces",
        old="new",
        file="cli/inputs.py",
        find="    if in_pieces and not stream:",
        replace="    if False:",
        tests=(
            "tests/cli/test_inputs.py::test_large_files_are_read_as_a_whole_if_an_option_needs_it",
        ),
    ),
    Mutant(
        "ties-in-the-order-of-rows",
        "the p-value of permutations depends on the order of rows with tied residuals",
        old="new",
        file="models/permutation.py",
        find="    return np.lexsort((places, *X.T, residuals > 0.0, rounded))\n",
        replace='    return np.argsort(rounded, kind="stable")\n',
        tests=(
            "tests/models/test_permutation.py::test_the_order_of_rows_does_not_count_where_residuals_are_tied",
        ),
    ),
    Mutant(
        "a-link-that-is-not-fitted",
        "a family declares the identity and fits logarithms: effects and intervals are nonsense",
        old="new",
        file="models/likelihood.py",
        find="        if right:\n            raise SettingError",
        replace="        if False:\n            raise SettingError",
        tests=(
            "tests/models/test_families_by_others.py::test_a_link_that_the_fit_contradicts_is_refused",
        ),
    ),
    Mutant(
        "step-of-a-clock-with-many-gaps",
        "a clock of which more than half of the rows are missing is refused, and numbering rows "
        "advised",
        old="new",
        file="data/structure.py",
        find="(whole == 1.0).mean() >= _OFTEN",
        replace="False",
        tests=("tests/data/test_design.py::test_gaps_break_sequences_whichever_values_occur",),
    ),
    Mutant(
        "settings-are-not-tried",
        "check proposes a command that is refused",
        old="new",
        file="data/check.py",
        find="            settings, more = _tried(settings, self.attempt)\n",
        replace="            more = []\n",
        tests=(
            "tests/data/test_check_remedies.py::test_what_is_refused_is_mended_by_its_remedies",
        ),
    ),
    Mutant(
        "a-question-changes-settings",
        "check excludes a column on a mere suspicion",
        old="new",
        file="data/look.py",
        find="if self.remedies and not self.asks else None",
        replace="if self.remedies else None",
        tests=("tests/data/test_check_remedies.py::test_questions_are_not_in_the_settings",),
    ),
    Mutant(
        "codes-of-the-user-are-lost",
        "codes that check proposes take the place of those that the user gave for the same column",
        old="new",
        file="data/check.py",
        find="        joined[name] = [*before, *(code",
        replace="        joined[name] = [*(code",
        tests=("tests/data/test_check_remedies.py::test_codes_of_the_user_are_kept_and_looked_at",),
    ),
    Mutant(
        "the-dearest-feature-comes-in-first",
        "exclusions take in the feature that costs most rows",
        old="new",
        file="data/gaps.py",
        find="left.pop(int(np.argmax(sizes)))",
        replace="left.pop(int(np.argmin(sizes)))",
        tests=(
            "tests/data/test_missing_by_environment.py::test_exclusions_keep_the_rows_that_they_say",
        ),
    ),
    Mutant(
        "another-command-is-tried",
        "check tries the settings without the words of the user, and prints a command with them",
        old="new",
        file="cli/check.py",
        find=(
            "    stated = {\n"
            "        **roles,\n"
            "        **stated,\n"
            "        **settings,\n"
            '        "na": [*dict.fromkeys([*read_names(given.na), *codes])],\n'
            "    }\n"
        ),
        replace='    stated = {**roles, **stated, **settings, "na": codes}\n',
        tests=("tests/cli/test_check.py::test_words_of_the_user_join_those_that_are_proposed",),
    ),
    Mutant(
        "factor-given-those-nested-in-it",
        "a factor is tested given the factors nested in it, which leave nothing of it",
        old="new",
        file="models/varying_coefficients.py",
        find="nested = [own[inner] for inner, outer in self.design.nested if outer == name]",
        replace="nested = []",
        tests=(
            "tests/decisions/test_design_components.py::test_a_factor_is_tested_without_those_nested_in_it",
        ),
    ),
    Mutant(
        "probability-of-another-rule",
        "compare shows the paper's probabilities beside features that the random-effects rule "
        "selected",
        old="new",
        file="decisions/decision.py",
        find="        return not asks_for_compatible(self.rule) or self.predictive is not None\n",
        replace="        return True\n",
        tests=(
            "tests/baselines/test_comparison.py::test_no_probability_of_another_posterior_stands_beside_a_selection",
        ),
    ),
    Mutant(
        "rarer-class-is-not-counted",
        "sites with few rows of the other class stand last",
        old="new",
        file="models/regression.py",
        find="np.minimum(events, data.counts - events) if specification.two_values else events",
        replace="events",
        tests=("tests/models/test_regression.py::test_of_two_classes_the_rarer_one_is_counted",),
    ),
    Mutant(
        "unlabelled-rows",
        "with missing='drop', rows without an environment label are kept",
        old="data/screening.py",
        file="data/missing.py",
        find="kept = (codes >= 0) & ~(lacks | beyond)",
        replace="kept = ~(lacks | beyond)",
        tests=("tests/data/test_data.py::test_drop_reports_rows_per_environment",),
    ),
    Mutant(
        "dropped-rows-warning",
        "the warning about rows that were dropped for missing values is gone",
        old="data/building.py",
        file="data/missing.py",
        find="        if self.dropped:\n            without",
        replace="        if False:\n            without",
        tests=(
            "tests/data/test_data.py::test_drop_names_an_environment_that_vanishes_and_keeps_first_appearance",
        ),
    ),
    Mutant(
        "min-rows",
        "environments of exactly min_rows rows are left out",
        old="data/environment_choice.py",
        file="data/settings.py",
        find="small = counts < self.min_rows",
        replace="small = counts <= self.min_rows",
        tests=("tests/data/test_choosing_environments.py::test_small_environments_are_left_out",),
    ),
    Mutant(
        "file-twice",
        "a file that is named twice is read twice",
        old="sources/folders.py",
        file="data/sources.py",
        find="if first is not file.path:",
        replace="if False:",
        tests=("tests/data/test_files_and_folders.py::test_no_file_counts_twice",),
    ),
    Mutant(
        "hidden-files",
        "files of a folder that begin with a point or an underscore are read as tables",
        old="sources/folders.py",
        file="data/sources.py",
        find="for name in files if not _hidden(name))",
        replace="for name in files)",
        tests=("tests/data/test_files_and_folders.py::test_what_hides_is_not_read",),
    ),
    Mutant(
        "merged-scatter",
        "when moments are merged, the scatter between the means of the two parts is left out",
        old="moments/parts.py",
        file="moments/moments.py",
        find="+= share * (gap",
        replace="+= 0.0 * (gap",
        tests=("tests/moments/test_moments.py::test_merging_equals_concatenating",),
    ),
    Mutant(
        "sampled-rows",
        "the rows of a sample count equally, and not for the rows of their environment",
        old="new",
        file="models/gaussian_fits.py",
        find="np.asarray(moments.counts / rows.counts)",
        replace="np.ones(len(moments.counts))",
        tests=("tests/moments/test_sample.py::test_a_sample_of_rows_tells_the_tails_of_all",),
    ),
    Mutant(
        "large-files",
        "a large file is read into memory",
        old="new",
        file="cli/inputs.py",
        find="(size >= LARGE_INPUT or",
        replace="(size > LARGE_INPUT or",
        tests=("tests/cli/test_inputs.py::test_large_files_are_read_in_pieces",),
    ),
    Mutant(
        "said-once",
        "every fit of a search warns of the same",
        old="new",
        file="data/checks.py",
        find="return search is not None and (category",
        replace="return False and (category",
        tests=("tests/estimators/test_bip.py::test_a_search_warns_of_one_thing_once",),
    ),
    Mutant(
        "other-tolerances",
        "long searches are repeated at other tolerances before the answer is shown",
        old="new",
        file="decisions/pipeline.py",
        find="<= most * _CHEAP_STEPS",
        replace="<= 1e99 * _CHEAP_STEPS",
        tests=(
            "tests/cli/test_fit.py::test_other_tolerances_come_last_and_only_where_they_are_cheap",
        ),
    ),
    # ---- models and posteriors
    Mutant(
        "sampled-nearly",
        "what a sampler knows nearly is reported as it is",
        old="new",
        file="inference/tempering.py",
        find="        return exact\n",
        replace="        return sampled\n",
        tests=(
            "tests/inference/test_tempering.py::test_what_is_sampled_nearly_is_reported_exactly",
        ),
    ),
    Mutant(
        "weak-level",
        "where no subset reaches the usual level, the weak one does not take its place",
        old="conditionals/tolerance.py",
        file="models/invariance_test.py",
        find="return min(self.level, self.weak_level)",
        replace="return self.level",
        tests=("tests/posterior/test_subset_evidence.py::test_levels_of_a_tolerance",),
    ),
    Mutant(
        "joint-p-value",
        "two p-values are combined with half of the degrees of freedom",
        old="conditionals/invariance_test.py",
        file="models/invariance_test.py",
        find="chdtrc(4.0, statistic)",
        replace="chdtrc(2.0, statistic)",
        tests=("tests/posterior/test_subset_evidence.py::test_evidence_of_all_subsets",),
    ),
    Mutant(
        "overdispersion-advice",
        "nothing is said of counts that scatter more than a Poisson law has it",
        old="conditionals/overdispersion.py",
        file="models/counts.py",
        find="if not ratio > LARGEST_HARMLESS:",
        replace="if ratio > LARGEST_HARMLESS:",
        tests=("tests/models/test_regression.py::test_it_is_about_one_for_poisson_counts_only",),
    ),
    Mutant(
        "each-environment",
        "one environment that is unlike all others does not count against a subset",
        old="new",
        file="models/invariance_test.py",
        find="return np.fmin(joint, each / EACH)",
        replace="return joint",
        tests=(
            "tests/decisions/test_predictive.py::test_one_environment_unlike_many_others_counts",
        ),
    ),
    Mutant(
        "permuted-tails",
        "where noise has heavy tails, an outlier is an environment that deviates",
        old="new",
        file="models/invariance_test.py",
        find="np.maximum(each[asked], permuted(asked, alone))",
        replace="each[asked]",
        tests=(
            "tests/models/test_permutation.py::test_heavy_tails_are_no_environment_that_deviates",
        ),
    ),
    Mutant(
        "permuted-spread",
        "where noise has heavy tails, an environment with an outlier has other noise",
        old="new",
        file="decisions/environments.py",
        find="chance = self._chance_of_spread if name == VARIANCE else self._chance_of_tails",
        replace="chance = 0.0 if name == VARIANCE else self._chance_of_tails",
        tests=(
            "tests/models/test_permutation.py::test_no_environment_is_named_for_the_size_of_heavy_noise",
        ),
    ),
    Mutant(
        "permuted-few-rows",
        "an outlier among environments of few rows is an environment that deviates",
        old="new",
        file="decisions/environments.py",
        find="return self._of_one(self._model.permuted_coefficients(self._mask, smallest))",
        replace="return 0.0",
        tests=(
            "tests/models/test_permutation.py::test_few_rows_with_heavy_tails_are_no_environment_that_deviates",
        ),
    ),
    Mutant(
        "permuted-effects",
        "heavy tails alone make effects of environments of few rows differ",
        old="new",
        file="decisions/levels.py",
        find="p_values = [max(p_value, chance) for p_value in p_values]",
        replace="pass",
        tests=(
            "tests/models/test_permutation.py::test_effects_are_the_same_where_tails_alone_deviate",
        ),
    ),
    Mutant(
        "effects-that-differ",
        "intervals of effects that differ are printed without a word",
        old="new",
        file="decisions/effects.py",
        find="[found.p_value < EFFECTS_DIFFER]",
        replace="[found.p_value < 0.0]",
        tests=("tests/decisions/test_effects.py",),
    ),
    Mutant(
        "permuted-normal",
        "environments are judged by permutations where residuals are normal, too",
        old="new",
        file="models/invariance_test.py",
        find="asked = asked[kurtosis(asked) > HEAVY",
        replace="asked = asked[kurtosis(asked) < HEAVY",
        tests=("tests/models/test_permutation.py::test_normal_noise_is_not_permuted",),
    ),
    Mutant(
        "permutations-reached",
        "a permutation counts where all environments deviate as much, not where any does",
        old="new",
        file="models/permutation.py",
        find="(saved >= limits[:, None] * variance).any(axis=0)",
        replace="(saved >= limits[:, None] * variance).all(axis=0)",
        tests=("tests/models/test_permutation.py",),
    ),
    Mutant(
        "determined-outcome",
        "a feature that gives the outcome exactly is left out without a word, and noise is "
        "selected",
        old="new",
        file="decisions/pipeline.py",
        find="        model.check_determined(~prior.forced_out, prior.max_size)\n",
        replace="",
        tests=("tests/estimators/test_determined_outcome.py",),
    ),
    Mutant(
        "determined-by-few-rows",
        "as many columns as different rows count as what gives the outcome exactly",
        old="new",
        file="models/gaussian.py",
        find="if left[0] < limits[g] and self._distinct_rows(mask, g) >= rank[0] + 1 + spare:",
        replace="if left[0] < limits[g]:",
        tests=("tests/estimators/test_determined_outcome.py::test_repeated_rows_are_no_more_rows",),
    ),
    Mutant(
        "determined-in-one-environment",
        "several features that give the outcome exactly in one environment only are left out, and "
        "noise is selected",
        old="new",
        file="models/determined.py",
        find="    for mask in tried if model.n_environments > 1 else ():",
        replace="    for mask in ():",
        tests=(
            "tests/estimators/test_determined_outcome.py::test_the_features_the_place_and_the_remedies_are_named",
        ),
    ),
    Mutant(
        "determined-among-many",
        "of more features than rows none together count as what gives the outcome exactly",
        old="new",
        file="models/determined.py",
        find="    for columns in _pursued(moments, "
        "moments.feature_columns[features.expand(allowed)]):",
        replace="    for columns in ():",
        tests=(
            "tests/estimators/test_determined_outcome.py::test_few_of_more_features_than_rows_are_found",
        ),
    ),
    Mutant(
        "capped-tolerance",
        "with a strong signal differences of any share of the noise are tolerated",
        old="new",
        file="models/invariance_test.py",
        find="np.minimum(CAP * n_rows, self.rho**2 * signal)",
        replace="self.rho**2 * signal",
        tests=("tests/decisions/test_predictive.py",),
    ),
    Mutant(
        "undecided-mass",
        "subsets that weigh something are left undecided",
        old="new",
        file="decisions/predictive.py",
        find=">= most + np.log(UNDECIDED / 2.0)).sum())",
        replace=">= most).sum())",
        tests=("tests/decisions/test_predictive.py::test_what_weighs_nothing_is_left_undecided",),
    ),
    Mutant(
        "candidates-dropped",
        "candidates are dropped beside a heavier one that is compatible, however little heavier",
        old="new",
        file="decisions/predictive.py",
        find="lightest = weights[:, best, None] - self._window",
        replace="lightest = weights[:, best, None] - 1.0",
        tests=("tests/decisions/test_predictive.py::test_what_weighs_nothing_is_left_undecided",),
    ),
    Mutant(
        "between-prices",
        "a candidate is dropped that is light at one price, although the price is another one",
        old="new",
        file="decisions/predictive.py",
        find="dropped |= (weights < lightest).all(axis=0)",
        replace="dropped |= (weights < lightest).any(axis=0)",
        tests=("tests/decisions/test_predictive.py::test_a_candidate_between_two_prices_is_kept",),
    ),
    Mutant(
        "bound-of-spread",
        "Bartlett's test counts as passed below its noncentrality",
        old="new",
        file="models/invariance_test.py",
        find="spread = np.full(len(residuals.rss), 0.5)",
        replace="spread = np.full(len(residuals.rss), 1.0)",
        tests=("tests/models/test_families.py", "tests/decisions/test_predictive.py"),
    ),
    Mutant(
        "bound-of-each",
        "environments are not compared with the rest where all together are alike",
        old="new",
        file="models/likelihood.py",
        find="open_yet[asked[sidak(np.tile(alone[:, None], environments)) >= enough]] = False",
        replace="open_yet[asked] = False",
        tests=("tests/models/test_families.py",),
    ),
    Mutant(
        "ties-of-leading-subsets",
        "of equally probable subsets the later one stays among the leading ones",
        old="new",
        file="kernels/all_subsets.py",
        find="positions[i] > positions[k])",
        replace="positions[i] < positions[k])",
        tests=("tests/kernels/test_all_subsets.py",),
    ),
    Mutant(
        "room-for-compatible-subsets",
        "subsets that may be compatible are lost where a call has no room for more",
        old="new",
        file="inference/enumeration.py",
        find="                sums.number[2] = 0\n",
        replace="                sums.number[2] = 0\n                block = stop\n",
        tests=("tests/kernels/test_all_subsets.py",),
    ),
    Mutant(
        "weights-in-one-unit",
        "sums over blocks are added up in different units",
        old="new",
        file="kernels/all_subsets.py",
        find="        total[1] *= shrink\n",
        replace="",
        tests=("tests/kernels/test_all_subsets.py",),
    ),
    Mutant(
        "blas-threads",
        "who leaves first lets BLAS go, although others are inside",
        old="new",
        file="_tools/parallel.py",
        find="            if not _holders:\n                first",
        replace="            if first is not None:\n                first",
        tests=("tests/_tools/test_parallel.py::test_blas_has_one_thread_while_anybody_is_inside",),
    ),
    Mutant(
        "screened-ranks",
        "the screen takes environments for larger than they are",
        old="new",
        file="kernels/subset_tree.py",
        find="left = total - last * (1.0 + rank) + lacking",
        replace="left = total - last * rank + lacking",
        tests=("tests/decisions/test_predictive.py", "tests/kernels/test_twins.py"),
    ),
    Mutant(
        "third-moment",
        "the null law of random deviations has another skewness",
        old="new",
        file="kernels/random_deviations.py",
        find="- 3.0 * _trace(inverse, sums[2])",
        replace="- 2.0 * _trace(inverse, sums[2])",
        tests=("tests/models/test_random_deviations.py",),
    ),
    Mutant(
        "volume-of-deviations",
        "the likelihood of random deviations lacks their determinant",
        old="new",
        file="kernels/random_deviations.py",
        find="-0.5 * (n_rows * np.log(left) + volume)",
        replace="-0.5 * n_rows * np.log(left)",
        tests=("tests/models/test_random_deviations.py",),
    ),
    Mutant(
        "errors-of-own-coefficients",
        "what is open of a site's deviation is left out of the errors of its coefficients",
        old="new",
        file="models/random_coefficients.py",
        find="share * V + V @ inverse @ V",
        replace="V @ inverse @ V",
        tests=("tests/models/test_random_deviations.py",),
    ),
    Mutant(
        "rough-curves",
        "along a variable rough curves are as likely as smooth ones",
        old="new",
        file="models/varying_coefficients.py",
        find="weights = (1.0 / b) / np.sqrt(np.sum(1.0 / b**2))",
        replace="weights = np.ones(len(b)) / np.sqrt(len(b))",
        tests=("tests/models/test_structured.py",),
    ),
    Mutant(
        "one-round-of-prewhitening",
        "autoregressive coefficients come from least squares residuals alone",
        old="new",
        file="models/varying_coefficients.py",
        find="_AR_ROUNDS = 2",
        replace="_AR_ROUNDS = 1",
        tests=("tests/models/test_structured.py",),
    ),
    Mutant(
        "gaps-in-sequences",
        "a year that a unit lacks is no gap",
        old="new",
        file="data/structure.py",
        find="return np.round(ratios).astype(np.int64)",
        replace="return np.ones(len(ratios), np.int64)",
        tests=("tests/data/test_design.py",),
    ),
    Mutant(
        "few-environments",
        "intervals of effects after random deviations take environments for as many as rows",
        old="new",
        file="models/random_coefficients.py",
        find="        freedom[-1] = found.freedom_mean\n",
        replace="",
        tests=("tests/models/test_random_deviations.py",),
    ),
    Mutant(
        "jackknife",
        "effects after random deviations are as certain as if all coefficients deviated equally",
        old="new",
        file="models/random_coefficients.py",
        find="of_mean = at.jackknife(share, b)",
        replace="of_mean = None",
        tests=("tests/models/test_random_deviations.py",),
    ),
    Mutant(
        "deviations-of-their-own",
        "in new environments all coefficients deviate equally",
        old="new",
        file="models/random_coefficients.py",
        find="_STEPS_OF_EM = 20",
        replace="_STEPS_OF_EM = 0",
        tests=("tests/models/test_random_deviations.py",),
    ),
    Mutant(
        "slow-sampling",
        "models of slow scores are sampled although all subsets take no longer",
        old="new",
        file="inference/base.py",
        find="slow and n_subsets <= _SAMPLED_SUBSETS",
        replace="False",
        tests=("tests/inference/test_enumeration.py",),
    ),
    Mutant(
        "irregular-clock",
        "rows that follow by parts of a step count as if a step lay between them",
        old="new",
        file="data/structure.py",
        find="    if irregular.any():",
        replace="    if False:",
        tests=("tests/data/test_design.py",),
    ),
    Mutant(
        "relative-price",
        "with many rows a column pays no share of what can be explained",
        old="new",
        file="decisions/predictive.py",
        find="float(max(least, SHARE * 2.0 * gain))",
        replace="float(least)",
        tests=("tests/decisions/test_predictive.py",),
    ),
    Mutant(
        "forced-features",
        "subsets without a feature that the prior includes for certain have a positive probability",
        old="priors/bound.py",
        file="priors.py",
        find=(
            "        result[\n"
            "            rows[:, self.forced_out].any(axis=1) | ~rows[:, self.forced_in].all(axis=1)\n"
            "        ] = -np.inf\n"
        ),
        replace="        result[rows[:, self.forced_out].any(axis=1)] = -np.inf\n",
        tests=(
            "tests/priors/test_priors.py::test_log_prob_is_normalised_and_equals_the_plain_formula",
        ),
    ),
    Mutant(
        "saved-posterior-defaults",
        "a saved posterior of an older version, without a kind, is read as predictive",
        old="posterior/io.py",
        file="posterior/posterior.py",
        find='kind: Literal["invariant", "predictive"] = "invariant"',
        replace='kind: Literal["invariant", "predictive"] = "predictive"',
        tests=("tests/posterior/test_posterior_io.py::test_keys_that_older_files_lack",),
    ),
    Mutant(
        "rescored-subsets",
        "where leading subsets are scored again from the rows, the posterior keeps the old scores",
        old="inference/enumeration.py",
        file="inference/enumeration.py",
        find="if check.changed:",
        replace="if False:",
        tests=("tests/inference/test_enumeration.py::test_disagreement_with_the_rows_is_repaired",),
    ),
    Mutant(
        "drifting-replicas",
        "the standard error of sampled probabilities does not see that replicas disagree",
        old="inference/tempering/agreement.py",
        file="inference/tempering.py",
        find="np.maximum(flat.var(axis=0, ddof=1) / len(flat), between / len(segments))",
        replace="flat.var(axis=0, ddof=1) / len(flat)",
        tests=(
            "tests/inference/test_tempering.py::test_agreement_tells_drifting_from_settled_replicas",
        ),
    ),
    # ---- decisions and predictions
    Mutant(
        "tails-of-baselines",
        "with free baselines the tails of the noise are those of the baselines",
        old="new",
        file="decisions/residual_check.py",
        find="y - y.mean() - columns",
        replace="y - columns",
        tests=("tests/decisions/test_noise.py",),
    ),
    Mutant(
        "column-price",
        "the price of a column in the predictive posterior is doubled",
        old="decisions/predictive.py",
        file="decisions/predictive.py",
        find="return gain - 0.5 * self.price * columns",
        replace="return gain - self.price * columns",
        tests=("tests/decisions/test_predictive.py", "tests/decisions/test_decision.py"),
    ),
    Mutant(
        "price-of-candidates",
        "the price of a column of the candidates is doubled",
        old="new",
        file="inference/enumeration.py",
        find="self.log_prior - 0.5 * price * self.columns",
        replace="self.log_prior - price * self.columns",
        tests=("tests/decisions/test_predictive.py::test_all_subsets_are_those_of_the_twin",),
    ),
    Mutant(
        "residual-check-bonferroni",
        "the p-value of the residual check is not corrected for the number of tests",
        old="decisions/residual_check.py",
        file="decisions/residual_check.py",
        find="tests * min(mean.min(), spread.min())",
        replace="min(mean.min(), spread.min())",
        tests=(
            "tests/decisions/test_residual_check.py::test_of_two_environments_each_is_the_others_rest",
        ),
    ),
    Mutant(
        "interval-rank",
        "intervals for a new environment count the environments without the new one",
        old="prediction/new_environments.py",
        file="prediction/new_environments.py",
        find="coverage * (len(quantiles) + 1) - _ROUNDING",
        replace="coverage * len(quantiles) - _ROUNDING",
        tests=("tests/prediction/test_new_environments.py::test_the_rank_among_environments",),
    ),
    Mutant(
        "gate-threshold",
        "the selected features predict wherever all do any worse in the worst environment",
        old="new",
        file="prediction/model_choice.py",
        find="if reason or ratio > threshold",
        replace="if reason or ratio > 1.0",
        tests=("tests/prediction/test_choice.py::test_the_gate_by_rows",),
    ),
    Mutant(
        "gate-of-deviances",
        "of classes, counts and times the selected features predict after smaller differences",
        old="new",
        file="kinds/base.py",
        find="choice_margin: ClassVar[float] = 0.3",
        replace="choice_margin: ClassVar[float] = 0.25",
        tests=(
            "tests/prediction/test_choice.py::test_thresholds_ties_and_errors_that_are_not_known",
        ),
    ),
    Mutant(
        "gate-of-few-environments",
        "the threshold falls with the number of environments, not with its square",
        old="new",
        file="prediction/model_choice.py",
        find="_FEW / max(n, 1) ** 2",
        replace="_FEW / max(n, 1)",
        tests=(
            "tests/prediction/test_choice.py::test_thresholds_ties_and_errors_that_are_not_known",
        ),
    ),
    Mutant(
        "worst-environment",
        "mean errors decide what predicts, not the worst",
        old="new",
        file="prediction/model_choice.py",
        find="float(everything[known].max()), float(selected[known].max())",
        replace="float(everything[known].mean()), float(selected[known].mean())",
        tests=("tests/prediction/test_choice.py::test_the_gate_by_rows",),
    ),
    Mutant(
        "selection-as-it-is",
        "what predicts is decided by selections that are repeated without each environment",
        old="new",
        file="prediction/model_choice.py",
        find="columns = tuple(name for name in chosen.columns if name in kept)",
        replace="columns = others.features.chosen(Selection(selection.settings, "
        "others).mask).columns",
        tests=("tests/prediction/test_choice.py::test_the_gate_by_rows",),
    ),
    Mutant(
        "deviance-of-a-constant",
        "the constant that deviances are compared with knows the environment left out",
        old="new",
        file="prediction/model_choice.py",
        find='rows_for("whole", others), ())',
        replace='rows_for("whole", selection.data), ())',
        tests=(
            "tests/prediction/test_choice.py::test_classes_are_judged_by_deviances_over_that_of_a_constant",
        ),
    ),
    Mutant(
        "constant-in-environments",
        "of a feature with levels that is constant in every environment one column counts",
        old="new",
        file="prediction/all_features.py",
        find="features.widths[whole].sum()",
        replace="whole.sum()",
        tests=(
            "tests/prediction/test_everything.py::test_each_level_of_a_constant_feature_takes_an_environment",
        ),
    ),
    Mutant(
        "half-of-each-line",
        "all features predict by the random intercept's line alone",
        old="new",
        file="prediction/all_features.py",
        find="0.5 * (mixed.pooled + mixed.coefficients)",
        replace="mixed.coefficients",
        tests=(
            "tests/prediction/test_everything.py::test_the_line_is_half_least_squares_and_half_a_random_intercept",
        ),
    ),
    Mutant(
        "effects-of-the-line",
        "rows of known environments get all of their mean residual",
        old="new",
        file="prediction/all_features.py",
        find="np.column_stack([mixed.ratio * weights * left,",
        replace="np.column_stack([left,",
        tests=(
            "tests/prediction/test_everything.py::test_the_line_is_half_least_squares_and_half_a_random_intercept",
        ),
    ),
    Mutant(
        "shrunken-effects",
        "the effects of a random intercept are not shrunk",
        old="new",
        file="moments/random_intercept.py",
        find="ratio * weights * (left - common)",
        replace="left - common",
        tests=(
            "tests/moments/test_random_intercept.py::test_it_is_the_restricted_maximum_likelihood_of_dense_algebra",
        ),
    ),
    Mutant(
        "ridge-penalty",
        "the penalty of many columns is chosen by rows, not by environments left out",
        old="new",
        file="prediction/all_features.py",
        find="if data.n_environments == 1:",
        replace="if True:",
        tests=(
            "tests/prediction/test_everything.py::test_ridge_by_dense_algebra_with_its_penalty_by_environments_left_out",
        ),
    ),
    Mutant(
        "penalty-of-classes",
        "with many columns the penalty of classes and counts is always 1",
        old="new",
        file="prediction/all_features.py",
        find="int(np.argmin(errors))]) if errors.any() else 1.0",
        replace="int(np.argmin(errors))]) if False else 1.0",
        tests=("tests/prediction/test_everything.py::test_many_columns_are_penalized",),
    ),
    Mutant(
        "price-of-invariance",
        "the price of invariance is that of all features over the selected ones",
        old="new",
        file="prediction/predictions.py",
        find="_over(self.selected[known].mean(), self.everything[known].mean())",
        replace="_over(self.everything[known].mean(), self.selected[known].mean())",
        tests=("tests/prediction/test_choice.py::test_what_may_be_said_of_the_price",),
    ),
    Mutant(
        "price-over-environments",
        "the range of the price over environments is upside down",
        old="new",
        file="prediction/predictions.py",
        find="return _over(self.selected, self.everything)",
        replace="return _over(self.everything, self.selected)",
        tests=("tests/prediction/test_choice.py::test_what_may_be_said_of_the_price",),
    ),
    Mutant(
        "price-of-shares",
        "of counts and times the price takes what is explained for an error",
        old="new",
        file="kinds/count.py",
        find="return 1.0 - figure",
        replace="return figure",
        tests=(
            "tests/prediction/test_choice.py::test_of_shares_that_are_right_the_rest_is_the_error",
        ),
    ),
    Mutant(
        "last-columns-counted-as-features",
        "with features of several columns the last three are included in the wrong subsets",
        old="new",
        file="kernels/subset_tree.py",
        find="live = 1 << (work.starts.size - 1 - _LAST)",
        replace="live = 1 << (d - 1 - _LAST)",
        tests=(
            "tests/kernels/test_grouped_tree.py::test_the_last_three_columns_follow_features_of_several",
        ),
    ),
    # ---- levels of invariance
    Mutant(
        "levels-in-reverse",
        "the weakest level that holds is taken",
        old="new",
        file="decisions/pipeline.py",
        find="or found.holds else levels:",
        replace="or found.holds else levels[::-1]:",
        tests=(
            "tests/models/test_free_baselines.py::test_the_strongest_level_that_holds_is_taken",
        ),
    ),
    Mutant(
        "empty-level-holds",
        "a level at which no feature predicts counts as one that holds",
        old="new",
        file="decisions/pipeline.py",
        find="return self.level is Level.full or bool(self.predictive.mode_mask.any())",
        replace="return True",
        tests=(
            "tests/models/test_free_baselines.py::test_a_level_at_which_no_feature_predicts_does_not_hold",
        ),
    ),
    Mutant(
        "free-baselines-uncounted",
        "environment intercepts take no degrees of freedom of the F test of slopes",
        old="new",
        file="models/invariance_test.py",
        find="        freedom[:, -1] -= self.extra_intercepts\n",
        replace="",
        tests=("tests/models/test_free_baselines.py::test_tests_are_those_of_refits",),
    ),
    Mutant(
        "scatter-between-baselines",
        "fits with environment intercepts have the scatter between environments, too",
        old="new",
        file="moments/moments.py",
        find="moments.scatter[:-1].sum(axis=0)[None]]),",
        replace="moments.scatter[-1:]]),",
        tests=(
            "tests/models/test_free_baselines.py::test_a_free_baseline_is_a_column_for_each_environment",
        ),
    ),
    Mutant(
        "law-of-shared-baselines",
        "log Λ with free baselines has the law of that with shared ones",
        old="new",
        file="models/free_baselines.py",
        find="        ranks[:, -1] += self.extra_intercepts\n",
        replace="",
        tests=(
            "tests/models/test_free_baselines.py::test_a_free_baseline_is_a_column_for_each_environment",
        ),
    ),
    Mutant(
        "noise-free-degrees",
        "with free noise own intercepts count as differences",
        old="new",
        file="models/free_baselines.py",
        find="common.sum(axis=1, keepdims=True) + 1.0)",
        replace="common.sum(axis=1, keepdims=True))",
        tests=(
            "tests/models/test_free_baselines.py::test_a_free_baseline_is_a_column_for_each_environment",
        ),
    ),
    Mutant(
        "baseline-degrees",
        "the F test of baselines has a degree of freedom for each of them",
        old="new",
        file="decisions/levels.py",
        find="degrees = float(shared.freedom[0, -1]) - left",
        replace="degrees = float(free.n_environments)",
        tests=("tests/models/test_free_baselines.py::test_the_baseline_is_tested_and_measured",),
    ),
    Mutant(
        "site-level-effects",
        "a feature that is constant in every environment has an effect to compare",
        old="new",
        file="models/free_baselines.py",
        find="return np.asarray(masks[:, self.constant_within].any(axis=1))",
        replace="return np.zeros(len(masks), dtype=bool)",
        tests=(
            "tests/models/test_free_baselines.py::test_what_is_constant_in_every_environment_has_no_effect_to_compare",
        ),
    ),
    Mutant(
        "dummies-within",
        "moments within environments take the dummies of a level that one lacks for collinear",
        old="new",
        file="moments/moments.py",
        find="        dummies=frozenset(dummies),\n",
        replace="",
        tests=(
            "tests/moments/test_levels_of_moments.py::test_a_level_that_one_environment_lacks_is_known_within_environments",
        ),
    ),
    Mutant(
        "small-strata",
        "many small environments reject equal slopes by the chi-square law of many rows",
        old="new",
        file="models/regression.py",
        find="return null._replace(expected=null.expected * unit, variance=null.variance * "
        "unit**2)",
        replace="return null",
        tests=(
            "tests/models/test_effects_level.py::test_many_small_environments_do_not_reject_equal_slopes",
        ),
    ),
    Mutant(
        "baselines-of-pseudo-data",
        "pseudo-data shrink the differences between baselines that are tested",
        old="new",
        file="decisions/levels.py",
        find="saved = plain if np.isfinite(plain) and plain > 0.0 else saved",
        replace="pass",
        tests=(
            "tests/models/test_effects_level.py::test_baselines_are_tested_by_the_likelihood_ratio",
        ),
    ),
    Mutant(
        "dispersions-as-effects",
        "counts whose dispersions differ are said to have other effects",
        old="new",
        file="decisions/levels.py",
        find="isinstance(compared, RegressionModel) and DISPERSION in compared.compares",
        replace="False",
        tests=(
            "tests/decisions/test_verdict_lines.py::test_dispersions_that_differ_are_no_difference_of_effects",
        ),
    ),
    Mutant(
        "fallback-risk",
        "where no subset is compatible, the most probable one predicts",
        old="new",
        file="decisions/rules.py",
        find="least_risky(findings) if predictive is None else predictive.mode_mask",
        replace="findings.posterior.mode_mask if predictive is None else predictive.mode_mask",
        tests=(
            "tests/decisions/test_decision.py::test_where_nothing_is_compatible_every_family_takes_what_risks_least",
        ),
    ),
    Mutant(
        "fallback-of-median",
        "where no subset is compatible, the median rule takes the most probable one",
        old="new",
        file="decisions/rules.py",
        find="least_risky(findings) if predictive is None else predictive.inclusion >= 0.5",
        replace="findings.posterior.mode_mask if predictive is None else predictive.inclusion >= "
        "0.5",
        tests=(
            "tests/decisions/test_decision.py::test_where_nothing_is_compatible_the_least_risky_subset_is_chosen",
        ),
    ),
    Mutant(
        "fallback-exchanges",
        "of many subsets the least risky is sought without exchanges",
        old="new",
        file="decisions/rules.py",
        find="for moves in (unit[free], exchanges):",
        replace="for moves in (unit[free],):",
        tests=(
            "tests/decisions/test_fallback.py::test_of_many_subsets_the_least_risky_is_found_by_flips_and_exchanges",
        ),
    ),
    Mutant(
        "fallback-unpriced",
        "where no subset is compatible, features that are not worth their price are taken",
        old="new",
        file="decisions/rules.py",
        find="if not (gains < prices).any():",
        replace="if True:",
        tests=("tests/decisions/test_fallback.py::test_noise_whose_means_move_is_not_taken",),
    ),
    Mutant(
        "fallback-shared-baseline",
        "what a feature is worth to the fallback is judged with one baseline for all environments",
        old="new",
        file="models/gaussian_fits.py",
        find="products = moments.scatter[:-1][:, used[:, None], used].sum(axis=0)",
        replace="products = moments.scatter[-1][used[:, None], used]",
        tests=("tests/decisions/test_fallback.py",),
    ),
    Mutant(
        "fallback-settings-by-rows",
        "settings of sites count as if each row told what they do",
        old="new",
        file="models/gaussian_fits.py",
        find="    gains += _explained_alone(means.T @ means, E - 1, owners[chosen & ~sloped], len(mask))[0]\n",
        replace=(
            "    gains += _explained_alone(\n"
            "        means.T @ means, moments.n_rows - 1, owners[chosen & ~sloped], len(mask)\n"
            "    )[0]\n"
        ),
        tests=("tests/decisions/test_fallback.py",),
    ),
    Mutant(
        "recoding-selected-in-silence",
        "a recoding of the label that is selected has the role of other features",
        old="new",
        file="decisions/decision.py",
        find="elif constant[j]:",
        replace="elif False:",
        tests=("tests/decisions/test_site_level_roles.py",),
    ),
    Mutant(
        "baselines-absorbed-in-silence",
        "the verdict does not say which baselines a recoding of the label leaves untested",
        old="new",
        file="decisions/decision.py",
        find="if decision.absorbed_baselines:",
        replace="if False:",
        tests=("tests/decisions/test_site_level_roles.py",),
    ),
    Mutant(
        "recoding-unnamed",
        "features that are constant within every environment are read without a warning",
        old="new",
        file="data/site_level.py",
        find="if names:",
        replace="if False:",
        tests=("tests/data/test_site_level.py",),
    ),
    Mutant(
        "page-escaping",
        "names of columns are written into a report as markup",
        old="report/page.py",
        file="report/page.py",
        find="autoescape=True",
        replace="autoescape=False",
        tests=("tests/report/test_report.py::test_hostile_names_are_only_names",),
    ),
    Mutant(
        "loaded-not-invariant",
        "a model that is loaded does not warn that its features are not known to be invariant",
        old="estimators/saved.py",
        file="estimators/saved.py",
        find="    elif not model.invariant_:\n",
        replace="    elif False:\n",
        tests=("tests/estimators/test_saved.py::test_a_saved_model_says_that_it_is_not_invariant",),
    ),
    Mutant(
        "class-order",
        "the columns of predict_proba are in the wrong order",
        old="estimators/classes.py",
        file="estimators/fitted.py",
        find="[1.0 - probability, probability]",
        replace="[probability, 1.0 - probability]",
        tests=(
            "tests/estimators/test_classifier.py::test_probabilities_are_those_of_the_logistic_fit",
        ),
    ),
    # ---- other methods and long work
    Mutant(
        "icp-bonferroni",
        "ICP does not correct p-values for the number of environments",
        old="baselines/invariance_tests.py",
        file="baselines/icp.py",
        find="2.0 * (n_environments - 1) * p_values",
        replace="p_values",
        tests=("tests/baselines/test_icp.py::test_every_subset_equals_the_definition",),
    ),
    Mutant(
        "rejected-status",
        "a comparison shows features of a rejected model as features that were not selected",
        old="comparison/comparison.py",
        file="baselines/comparison.py",
        find='    refused = "rejected" if outcome == "rejected" else "not selected"\n',
        replace='    refused = "not selected"\n',
        tests=(
            "tests/baselines/test_comparison.py::test_what_was_said_of_a_feature_looks_different",
        ),
    ),
    Mutant(
        "left-out-rows",
        "a comparison tells errors in environments that were fitted",
        old="new",
        file="baselines/comparison.py",
        find="_fitted(model, without(data, label), screenings)",
        replace="_fitted(model, data, screenings)",
        tests=(
            "tests/baselines/test_left_out.py::test_each_environment_is_predicted_by_what_was_fitted_without_it",
        ),
    ),
    Mutant(
        "left-out-longest-time",
        "times are predicted up to the longest one of the environment left out",
        old="new",
        file="baselines/comparison.py",
        find="np.delete(data.y, rows)",
        replace="data.y",
        tests=(
            "tests/baselines/test_left_out.py::test_times_of_an_environment_that_was_seen_for_longest",
        ),
    ),
    Mutant(
        "ridge-strength",
        "ridge regression takes the smallest strength",
        old="new",
        file="baselines/all_features.py",
        find="float(min(_STRENGTHS, key=error))",
        replace="float(_STRENGTHS[0])",
        tests=(
            "tests/baselines/test_pooled.py::test_the_strength_of_ridge_is_that_of_the_least_error_over_folds",
        ),
    ),
    Mutant(
        "stable-subsets",
        "stabilised regression averages subsets that are not stable",
        old="new",
        file="baselines/stabilized_regression.py",
        find="        averaged = stable & (errors <= np.quantile(sampled, 1.0 - self.alpha_pred))\n",
        replace="        averaged = errors <= np.quantile(sampled, 1.0 - self.alpha_pred)\n",
        tests=(
            "tests/baselines/test_stabilized_regression.py::test_it_is_the_average_that_the_formulas_give",
        ),
    ),
    Mutant(
        "weight-by-the-worst",
        "anchor regression and V-REx choose their weights by the worst environment left out",
        old="new",
        file="baselines/all_features.py",
        find="errors = np.mean([",
        replace="errors = np.max([",
        tests=(
            "tests/baselines/test_linear_predictors.py::test_the_weight_is_that_of_the_least_error_in_environments_left_out",
        ),
    ),
    Mutant(
        "perturbing-rows",
        "a sweep fits an outcome to rows that perturb it",
        old="sweeps/source.py",
        file="sweeps/data.py",
        find="        if not rows:\n            return turned",
        replace="        return turned",
        tests=(
            "tests/sweeps/test_sweep_perturbed.py::test_a_row_is_not_used_for_the_outcome_that_it_perturbs",
        ),
    ),
    Mutant(
        "case-weights",
        "a row of weight 2 counts once",
        old="new",
        file="data/weights.py",
        find="rows = np.repeat(np.arange(len(counts)), counts)",
        replace="rows = np.flatnonzero(counts)",
        tests=("tests/estimators/test_weights.py::test_weights_repeat_rows",),
    ),
    Mutant(
        "shrunken-estimates",
        "printed effects hold the pseudo-data that keep fits finite",
        old="new",
        file="models/regression.py",
        find="plain = replace(self.specification, pseudo_rows=0.0)",
        replace="plain = self.specification",
        tests=("tests/decisions/test_effects.py::test_what_pseudo_data_shrink_is_not_printed",),
    ),
    Mutant(
        "separated-environments-count",
        "environments without a finite estimate count in I² and τ by the penalised one",
        old="new",
        file="models/base.py",
        find=(
            "        return printed._replace(\n"
            "            errors=np.where(mixed[:, None] | printed.infinite, np.nan, printed.errors)\n"
            "        )\n"
        ),
        replace="        return printed._replace(errors=np.where(mixed[:, None], np.nan, printed.errors))\n",
        tests=(
            "tests/decisions/test_effects.py::test_environments_without_a_finite_estimate_do_not_count",
        ),
    ),
    Mutant(
        "mixed-coefficients-count",
        "environments in which a coefficient stands for two columns count in I² and τ",
        old="new",
        file="models/base.py",
        find=(
            "        return printed._replace(\n"
            "            errors=np.where(mixed[:, None] | printed.infinite, np.nan, printed.errors)\n"
            "        )\n"
        ),
        replace="        return printed._replace(errors=np.where(printed.infinite, np.nan, printed.errors))\n",
        tests=(
            "tests/decisions/test_effects.py::test_environments_in_which_columns_stand_for_each_other_do_not_count",
        ),
    ),
    Mutant(
        "known-errors",
        "p-values of interactions take standard errors of few rows as known",
        old="new",
        file="decisions/decision.py",
        find="return heterogeneity(own.values[:-1], own.errors[:-1], own.freedom[:-1])",
        replace="return heterogeneity(own.values[:-1], own.errors[:-1])",
        tests=("tests/decisions/test_effects.py",),
    ),
    Mutant(
        "smaller-error-of-the-mean",
        "prediction intervals of effects take the smaller standard error",
        old="new",
        file="decisions/heterogeneity.py",
        find="np.maximum(self.standard_error, self.hartung_knapp)",
        replace="np.minimum(self.standard_error, self.hartung_knapp)",
        tests=("tests/decisions/test_meta_analysis.py",),
    ),
    Mutant(
        "noise-taken-for-granted",
        "features that give the outcome exactly are not searched for",
        old="new",
        file="models/determined.py",
        find=" and model.leaves_some(allowed)",
        replace="",
        tests=("tests/estimators/test_determined_outcome.py",),
    ),
    Mutant(
        "printing-fits",
        "what a decision shows is computed while it is printed",
        old="new",
        file="estimators/bip.py",
        find="decision = self._decision.complete()",
        replace="decision = self._decision",
        tests=("tests/decisions/test_rendering.py",),
    ),
    Mutant(
        "maximum-likelihood-of-tau",
        "the variance between environments is not restricted maximum likelihood",
        old="new",
        file="decisions/heterogeneity.py",
        find="slope = 0.5 * (((weights * around) ** 2).sum(axis=0) - total + share)",
        replace="slope = 0.5 * (((weights * around) ** 2).sum(axis=0) - total)",
        tests=("tests/decisions/test_meta_analysis.py",),
    ),
    Mutant(
        "infinite-effects-stretch-axes",
        "axes of forest plots reach to estimates that are infinite",
        old="new",
        file="decisions/forests.py",
        find="np.vstack([each[:1], local[~infinite]])",
        replace="np.vstack([each[:1], local])",
        tests=(
            "tests/decisions/test_decision_plots.py::test_an_infinite_effect_is_an_arrow_that_stretches_no_axis",
        ),
    ),
    Mutant(
        "unit-of-effects",
        "effects are per 1, whatever unit is named",
        old="new",
        file="decisions/effects.py",
        find='return size * values if scale == "difference" else np.exp(size * values)',
        replace='return values if scale == "difference" else np.exp(values)',
        tests=("tests/decisions/test_effects.py",),
    ),
    Mutant(
        "follow-up",
        "times left out are calibrated beyond what the others have seen",
        old="new",
        file="prediction/new_environments.py",
        find=(
            "    return (\n"
            "        whole,\n"
            "        by(np.minimum(times, predictor.end)) / whole,\n"
            "        np.where(times <= predictor.end, event, 0.0),\n"
            "    )\n"
        ),
        replace="    return whole, by(np.minimum(times, predictor.end)) / whole, event\n",
        tests=(
            "tests/prediction/test_new_environments.py::test_calibration_of_times_ends_with_what_others_have_seen",
        ),
    ),
    Mutant(
        "half-of-the-limit",
        "values below a limit of detection count as the limit",
        old="new",
        file="data/columns.py",
        find='return limit / 2 if self.below_limit == "half" and sign in "<≤" else limit',
        replace="return limit",
        tests=("tests/data/test_findings.py::test_limits_of_detection",),
    ),
    Mutant(
        "holm-factors",
        "the gene study does not correct p-values for the number of methods",
        old="studies/genes_chance.py",
        file="replication/genes.py",
        find="factors = np.arange(len(p_values), 0, -1)",
        replace="factors = 1",
        tests=(
            "tests/replication/test_genes.py::test_methods_are_adjusted_for_settings_and_for_each_other",
        ),
    ),
    Mutant(
        "resume",
        "a run goes on in a folder whose results are of other settings or data",
        old="_tools/run_folder.py",
        file="_tools/files.py",
        find="    if differing:\n",
        replace="    if False:\n",
        tests=("tests/sweeps/test_sweep_store.py::test_other_settings_or_data_are_refused",),
    ),
    # ---- faces
    Mutant(
        "output-over-table",
        "a command may write its result over the table that it reads",
        old="faces/cli/outputs.py",
        file="cli/outputs.py",
        find="set() if source is None else {os.path.realpath(os.path.expanduser(source))}",
        replace="set()",
        tests=("tests/cli/test_fit.py::test_bad_request",),
    ),
    Mutant(
        "host-check",
        "the app answers whatever host a browser asks for",
        old="faces/app/security.py",
        file="app/security.py",
        find="            and host in self.hosts\n",
        replace="",
        tests=("tests/app/test_app_pages.py::test_another_host_is_refused",),
    ),
    # ---- kernels
    Mutant(
        "swap-acceptance",
        "chains exchange their subsets without regard to their temperatures",
        old="kernels/chain_moves.py",
        file="kernels/mcmc.py",
        find="(beta - other_beta) * (other_log_ratio - log_ratio)",
        replace="other_log_ratio - log_ratio",
        tests=("tests/inference/test_moves.py::test_swaps",),
    ),
    Mutant(
        "u2g-gradient",
        "the gradient of variational inference is up to twice too large, most where a feature is "
        "undecided",
        old="kernels/mean_field.py",
        file="kernels/mean_field.py",
        find="0.5 * larger * difference",
        replace="0.5 * difference",
        tests=("tests/inference/test_variational.py::test_compiled_steps_are_the_plain_algorithm",),
    ),
    Mutant(
        "higher-maximum",
        "of two maxima of a likelihood of counts the first that is found is taken, not the higher "
        "one",
        old="kernels/newton/maximise.py",
        file="kernels/newton.py",
        find="if higher > value + _HIGHER or (np.isnan(value) and not np.isnan(higher)):",
        replace="if np.isnan(value) and not np.isnan(higher):",
        tests=(
            "tests/kernels/test_newton_maxima.py::test_of_two_dispersions_the_likelier_is_taken",
        ),
    ),
    Mutant(
        "search-in-sweeps",
        "a sweep searches compatible subsets of every outcome, whatever its rule selects by",
        old="new",
        file="sweeps/fitting.py",
        find="if asks_for_compatible(rule) and findings.predictive is None:",
        replace="if findings.ranking(rule) is findings.posterior and findings.predictive is None:",
        tests=(
            "tests/sweeps/test_sweep.py::test_rules_that_take_the_posterior_as_it_is_start_no_search",
        ),
    ),
    # ---- families by others
    Mutant(
        "log-link-effects",
        "effects after a fit with a log link are printed as differences of logarithms",
        old="new",
        file="decisions/effects.py",
        find="    return known[outcome.link]\n",
        replace='    return "difference"\n',
        tests=("tests/models/test_families_by_others.py::test_effects_are_ratios_of_means",),
    ),
    Mutant(
        "log-link-intervals",
        "intervals of predictions have one width whatever the link",
        old="new",
        file="prediction/predictor.py",
        find='return self.kind.by_least_squares and self.link == "identity"',
        replace="return self.kind.by_least_squares",
        tests=("tests/models/test_families_by_others.py::test_intervals_of_one_width_are_refused",),
    ),
    Mutant(
        "undeclared-link",
        "a mean that is not the inverse of the declared link is accepted",
        old="new",
        file="models/likelihood.py",
        find="elif not np.allclose(self.mean(_PROBE), INVERSE_LINKS[link](_PROBE), rtol=1e-9, "
        "atol=0.0):",
        replace="elif False:",
        tests=(
            "tests/models/test_families_by_others.py::test_what_is_not_declared_is_refused_before_a_fit",
        ),
    ),
    Mutant(
        "scatter-law",
        "small environments are tested by the chi-square law of many rows",
        old="new",
        file="models/likelihood.py",
        find="        if not self._scatters:\n            return super().null_of(figures)\n       "
        " beside",
        replace="        if True:\n            return super().null_of(figures)\n        beside",
        tests=(
            "tests/models/test_families_by_others.py::test_invariant_data_in_small_environments_are_not_rejected",
        ),
    ),
    Mutant(
        "level-of-missing",
        "missing values are merged with a level that has the name of theirs",
        old="new",
        file="data/encoding.py",
        find="if choices.missing_level and MISSING_LEVEL in map(level_of, levels.written):",
        replace="if False:",
        tests=(
            "tests/data/test_findings.py::test_a_level_of_the_name_of_missing_values_is_refused",
        ),
    ),
    Mutant(
        "site-weight-of-lines",
        "the site's mean follows the line that missed held-out sites by more",
        "new",
        "prediction/new_site.py",
        "np.log(variances[0] / variances[1])",
        "np.log(variances[1] / variances[0])",
        ("tests/prediction/test_new_site.py",),
    ),
    Mutant(
        "site-slopes-without-limit",
        "slopes of all features count fully however far they are from the selected ones'",
        "new",
        "prediction/new_site.py",
        "return 1.0 if apart <= self.gain else self.gain / apart",
        "return 1.0",
        ("tests/prediction/test_new_site.py",),
    ),
    Mutant(
        "site-evidence-of-all-rows",
        "a large training site decides the experts alone",
        "new",
        "prediction/new_site.py",
        "share = min(1.0, EVIDENCE_ROWS / each[e].freedom)",
        "share = 1.0",
        ("tests/prediction/test_new_site.py",),
    ),
    Mutant(
        "site-certain-weights",
        "training sites exclude what they make improbable",
        "new",
        "prediction/new_site.py",
        "share = 1.0 / (n_sites + 2.0)",
        "share = 0.0",
        ("tests/prediction/test_new_site.py",),
    ),
    Mutant(
        "site-few-labels",
        "slopes of a site are estimated from fewer than five labels",
        "new",
        "prediction/new_site.py",
        "len(y) < FEWEST_LABELLED",
        "len(y) < 1",
        ("tests/prediction/test_new_site.py",),
    ),
    Mutant(
        "recalibration-without-prior",
        "a few labels recalibrate a site without what held-out sites needed",
        "new",
        "prediction/recalibration.py",
        "float(apart**2 @ (1.0 / prior.variances))",
        "0.0 * float(apart**2 @ (1.0 / prior.variances))",
        ("tests/prediction/test_new_site.py",),
    ),
    Mutant(
        "pooled-few-events",
        "measures of sites with a handful of events are pooled",
        "new",
        "prediction/pooled_performance.py",
        "one.events < FEWEST_EVENTS",
        "one.events < 0",
        ("tests/prediction/test_pooled_performance.py",),
    ),
    Mutant(
        "pooled-without-spread",
        "a new site is predicted as the mean of sites",
        "new",
        "prediction/pooled_performance.py",
        "deviations = np.sqrt(spreads**2 + 1.0 / total)",
        "deviations = np.sqrt(1.0 / total)",
        ("tests/prediction/test_pooled_performance.py",),
    ),
)


class Verdict(NamedTuple):
    """killed : None where tests could not be run; by : the test that failed, or what went wrong"""

    killed: bool | None
    by: str
    seconds: float


def misplaced(mutants: Sequence[Mutant]) -> list[str]:
    """What is wrong with the table: snippets that do not occur exactly once, names that occur
    twice."""
    found = []
    for mutant in mutants:
        path = located(mutant, ROOT if mutant.file.startswith("replication/") else ROOT / "src")
        if not path.is_file():
            found.append(f"{mutant.name}: there is no file {mutant.file}")
        elif (times := path.read_text(encoding="utf-8").count(mutant.find)) != 1:
            found.append(f"{mutant.name}: {mutant.find!r} occurs {times} times in {mutant.file}")
    names = [mutant.name for mutant in mutants]
    return found + [
        f"{name}: the name of two mutants"
        for name in sorted({n for n in names if names.count(n) > 1})
    ]


def located(mutant: Mutant, sources: Path) -> Path:
    """The file of a mutant in a copy of the sources, in which `replication` lies beside the
    package."""
    return (
        sources / mutant.file
        if mutant.file.startswith("replication/")
        else sources / PACKAGE / mutant.file
    )


def run_tests(sources: Path, tests: Sequence[str], longest: float | None = None) -> Verdict:
    """The tests with the package from a copy of the sources, up to the first that fails."""
    options = ["-x", "-q", "-p", "no:cacheprovider", "-m", "not slow", "-o", "pythonpath="]
    command = [sys.executable, "-P", "-m", "pytest", *options, *tests]
    examples = {"HYPOTHESIS_STORAGE_DIRECTORY": str(sources.parent / "examples")}
    started = time.perf_counter()
    try:
        run = subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, **examples, "PYTHONPATH": f"{sources}{os.pathsep}{ROOT}"},
            capture_output=True,
            text=True,
            timeout=longest,
        )
    except subprocess.TimeoutExpired:
        return Verdict(True, "no end in sight", time.perf_counter() - started)
    seconds = time.perf_counter() - started
    if run.returncode not in (PASSED, FAILED):
        return Verdict(None, (run.stdout + run.stderr).strip()[-2000:], seconds)
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", run.stdout, re.MULTILINE)
    return Verdict(run.returncode == FAILED, failed[1] if failed else "", seconds)


def is_imported(sources: Path) -> bool:
    """Whether this copy is what tests import, not an installed package."""
    command = [sys.executable, "-c", f"import {PACKAGE}; print({PACKAGE}.__file__)"]
    env = {**os.environ, "PYTHONPATH": str(sources)}
    place = subprocess.run(
        command, cwd=ROOT, env=env, capture_output=True, text=True, check=True
    ).stdout.strip()
    return Path(place).resolve().is_relative_to(sources.resolve())


def mutated(mutant: Mutant, clean: Path, place: Path) -> Path:
    """A copy of clean sources with the mutant in it, and with the compiled kernels of the clean
    ones.

    Numba keeps what it compiled by the content of one file, whatever that calls in others: where a
    kernel is mutated, no compiled one is copied.
    """
    of_kernels = mutant.file.startswith("kernels/")
    left_out = shutil.ignore_patterns("*.nbi", "*.nbc") if of_kernels else None
    sources = shutil.copytree(clean, place / "src", ignore=left_out)
    path = located(mutant, sources)
    path.write_text(
        path.read_text(encoding="utf-8").replace(mutant.find, mutant.replace), encoding="utf-8"
    )
    return sources


def judged(mutant: Mutant, clean: Path, whole_suite: bool) -> Verdict:
    with tempfile.TemporaryDirectory(prefix=f"{mutant.name}-") as folder:
        sources = mutated(mutant, clean, Path(folder))
        verdict = run_tests(sources, mutant.tests, LONGEST)
        return run_tests(sources, ["tests"]) if verdict.killed is False and whole_suite else verdict


def shown(mutant: Mutant, verdict: Verdict) -> str:
    what = {True: "killed", False: "survived", None: "not run"}[verdict.killed]
    known = f" ({mutant.survives})" if mutant.survives else ""
    return (
        f"{mutant.name:26} {mutant.file:36} {what:8} {verdict.seconds:5.0f} s  {verdict.by}{known}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--only", nargs="+", metavar="NAME", choices=[mutant.name for mutant in MUTANTS]
    )
    parser.add_argument("--jobs", type=int, default=1, help="mutants at a time")
    parser.add_argument(
        "--whole-suite-for-survivors", action="store_true", help="ask all tests about them"
    )
    parser.add_argument(
        "--list", action="store_true", help="print names and behaviours, and run nothing"
    )
    asked = parser.parse_args(arguments)
    mutants = [mutant for mutant in MUTANTS if not asked.only or mutant.name in asked.only]
    if asked.list:
        print(
            "\n".join(f"{mutant.name:26} {mutant.old:34} {mutant.behaviour}" for mutant in mutants)
        )
        return 0
    if wrong := misplaced(mutants):
        print("\n".join(wrong))
        return 1
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        clean = shutil.copytree(ROOT / "src", Path(folder, "src"))
        shutil.copytree(ROOT / "replication", clean / "replication")
        if not is_imported(clean):
            print("tests would import another copy of the package: unset what puts it first")
            return 1
        # Also fills the caches of kernels, which the mutants outside of them share.
        before = run_tests(clean, sorted({test for mutant in mutants for test in mutant.tests}))
        if before.killed is not False:
            print(f"without a mutant: {before.by}")
            return 1
        print(f"without a mutant all covering tests pass, in {before.seconds:.0f} s", flush=True)
        with ThreadPoolExecutor(max(asked.jobs, 1)) as pool:
            judge = partial(judged, clean=clean, whole_suite=asked.whole_suite_for_survivors)
            verdicts = []
            for mutant, verdict in zip(mutants, pool.map(judge, mutants), strict=True):
                verdicts.append(verdict)
                print(shown(mutant, verdict), flush=True)
    unseen = [
        mutant.name for mutant, found in zip(mutants, verdicts, strict=True) if not found.killed
    ]
    unexpected = [
        mutant.name for mutant in mutants if mutant.name in unseen and not mutant.survives
    ]
    print(f"{len(mutants) - len(unseen)} of {len(mutants)} killed")
    if unexpected:
        print(f"the tests should see {', '.join(unexpected)}")
    return int(bool(unexpected))


if __name__ == "__main__":
    sys.exit(main())
