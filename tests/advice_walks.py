"""Every remedy that a message names as it is to be typed: how the message comes about, and what follows it.

A walk in Python is code that provokes the message, a pattern that finds the remedy in it, and the code that must work
with the remedy put in the place of REMEDY. A walk in a shell is the same with the arguments of the program; there the
remedy is appended. `fill` replaces what a remedy leaves to the reader, such as three dots.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Walk:
    name: str
    provoke: str
    remedy: str
    follow: str = ""
    setup: str = ""
    fill: dict[str, str] = field(default_factory=dict)


TWO_VALUES = "table = table.assign(died=(table['a'] > 0).astype(int)); environment = 'site'"

TIMES = "times, died, quiet = table['y'].abs() + 0.1, table['a'] < 9, table['site'] == 'north'"
SURVIVAL = "BIPSurvival().fit(X, times, labels, event=died)"

PYTHON = (
    *(
        Walk(f"times to an event, {name}", provoke, remedy, follow, TIMES)
        for name, provoke, remedy, follow in (
            ("intervals", "PiecewiseExponential('many')", r"'auto'", "PiecewiseExponential(REMEDY)"),
            (
                "no events",
                "BIPSurvival(PiecewiseExponential(pseudo_rows=0)).fit(X, times, labels, event=quiet)",
                r"pseudo_rows=1",
                "BIPSurvival(PiecewiseExponential(REMEDY)).fit(X, times, labels, event=quiet)",
            ),
            (
                "another conditional",
                "BIPSurvival('linear_gaussian').fit(X, times, labels)",
                r"family='piecewise_exponential'",
                "BIPSurvival(REMEDY).fit(X, times, labels, event=died)",
            ),
            (
                "curves",
                f"{SURVIVAL}.predict_survival(X, [-1])",
                r"times=\[1, 2\]",
                f"{SURVIVAL}.predict_survival(X, REMEDY)",
            ),
        )
    ),
    Walk(
        "a report beside methods",
        "BIP().fit(data).report('report.html', 'ICP')",
        r"compare\(data, 'BIP,ICP'\)",
        "REMEDY",
    ),
    Walk("curves of data", "Additive(data)", r"Additive\(\)\.bind\(data\)", "REMEDY"),
    Walk("curves with other knots", "Additive(knots=2)", r"None", "Additive(knots=REMEDY)"),
    Walk("curves compared otherwise", "Additive(comparison='full')", r"'all'", "Additive(comparison=REMEDY)"),
    Walk("a sweep over nothing", "sweep(table)", r"environment='site'", "sweep(table, REMEDY)"),
    Walk(
        "a sweep without labels", "sweep(table[['a', 'y']])", r"environments=labels", "sweep(table[['a', 'y']], REMEDY)"
    ),
    Walk(
        "a sweep over gaps",
        "sweep(gaps, environment='site')",
        r"missing='drop'",
        "sweep(gaps, environment='site', REMEDY)",
    ),
    Walk(
        "a sweep over names",
        "sweep(words, environment='site')",
        r"exclude=\['b'\]",
        "sweep(words, environment='site', REMEDY)",
    ),
    Walk(
        "outcomes as one text",
        "sweep(table, environment='site', outcomes='a,b')",
        r"outcomes=\['a', 'b'\]",
        "sweep(table, environment='site', REMEDY)",
    ),
    Walk(
        "no outcomes",
        "sweep(table, environment='site', outcomes=[])",
        r"outcomes=None",
        "sweep(table, environment='site', REMEDY)",
    ),
    *(
        Walk(f"a sweep over two values, {name}", "sweep(table, environment='site')", remedy, follow, TWO_VALUES)
        for name, remedy, follow in (
            ("one by one", r"BIP\(\)\.fit_data\(MultiEnvironmentData.*?\)\)", "REMEDY"),
            ("as they are", r"BIP\(family='\w+'\)", "sweep(table, REMEDY, environment='site')"),
        )
    ),
    Walk(
        "a sweep of what needs rows",
        "sweep(table, BIP('logistic'), environment='site')",
        r"family='linear_gaussian'",
        "sweep(table, BIP(REMEDY), environment='site')",
    ),
    Walk(
        "a sweep with events",
        "sweep(table, environment='site', event='died')",
        r"MultiEnvironmentData\.from_table\(.*?\)",
        "REMEDY",
        f"{TWO_VALUES}; table['time'] = 1.0 + table['y'] ** 2; outcome = 'time'",
    ),
    Walk(
        "events as one string",
        "from_arrays(X, y**2, labels, event='died')",
        r"event=table\['died'\]",
        "from_arrays(X, y**2, labels, REMEDY)",
        TWO_VALUES,
    ),
    *(
        Walk(
            f"a {name} model of any numbers",
            f"BIP('{name}').fit(data)",
            r"family='auto'",
            "BIP(REMEDY).fit(data)",
        )
        for name in ("logistic", "poisson")
    ),
    Walk(
        "an exposure that a model does not know of",
        "BIP('linear_gaussian').fit(X, np.arange(30), labels, exposure=y**2)",
        r"family='auto'",
        "BIP(REMEDY)",
    ),
    *(
        Walk(
            f"a column beside the outcome that {name} does not use",
            f"{method}.fit(from_table(times, 'y', 'site', event='died'))",
            r"exclude=\['died'\]",
            f"{method}.fit(from_table(times, 'y', 'site', REMEDY)).get_feature_names_out()",
            "times = table.assign(died=[0, 1] * 15, y=table['y'].abs() + 0.1)",
        )
        for name, method in (("a model", "BIP('linear_gaussian')"), ("a method", "ICP()"))
    ),
    Walk(
        "samples of the gene study",
        "make_study('genes')",
        r"simulated=600",
        "make_study('genes', REMEDY)",
        "from replication import make_study",
    ),
    Walk(
        "a regressor and an average",
        "BIP(predict_with='average', regressor=LinearRegression()).fit(data)",
        r"predict_with='selected'",
        "BIP(REMEDY, regressor=LinearRegression()).fit(data)",
    ),
    Walk(
        "a regressor or an average",
        "BIP(predict_with='average', regressor=LinearRegression()).fit(data)",
        r"regressor=None",
        "BIP(predict_with='average', REMEDY).fit(data)",
    ),
    Walk(
        "a regressor for moments",
        "BIP(regressor=LinearRegression()).fit(Moments.from_data(data))",
        r"regressor=None",
        "BIP(REMEDY).fit(Moments.from_data(data))",
    ),
    Walk(
        "a regressor beside an exposure",
        "BIP(family=Poisson(), regressor=LinearRegression()).fit(X, counts, labels, exposure=exposure)",
        r"regressor=None",
        "BIP(family=Poisson(), REMEDY).fit(X, counts, labels, exposure=exposure)",
        "exposure = np.arange(1.0, 31.0); counts = np.arange(30.0) % 4",
    ),
    Walk(
        "a score of counts with an exposure",
        "model.score(X, y)",
        r"score\(X, y / exposure, sample_weight=exposure\)",
        "model.REMEDY",
        "exposure = np.arange(1.0, 31.0); y = np.arange(30.0) % 4; "
        "model = BIP(family=Poisson()).fit(X, y, labels, exposure=exposure)",
    ),
    Walk(
        "a classifier without probabilities",
        "BIPClassifier(family='linear_gaussian').fit(X, y > 0, labels)",
        r"family='logistic'",
        "BIPClassifier(REMEDY).fit(X, y > 0, labels)",
    ),
    Walk(
        "three classes",
        "BIPClassifier().fit(X, y, labels)",
        r"\[label == 'a' for label in y\]",
        "BIPClassifier().fit(X, REMEDY, labels)",
        "y = list('abc' * 10)",
    ),
    Walk(
        "an average behind a screen",
        "Screened(BIP(predict_with='average')).fit(data)",
        r"predict_with='selected'",
        "Screened(BIP(REMEDY)).fit(data)",
    ),
    Walk(
        "a class of engines",
        "BIP(engine=Tempering).fit(data)",
        r"Tempering\(\)",
        "BIP(engine=REMEDY).fit(data)",
    ),
    Walk(
        "a number for a tolerance",
        "BIP(tolerance=0.1).fit(data)",
        r"Tolerance\.strict\(\)",
        "BIP(tolerance=REMEDY).fit(data)",
    ),
    Walk(
        "a class of priors",
        "BIP(prior=UniformPrior).fit(data)",
        r"UniformPrior\(\)",
        "BIP(prior=REMEDY).fit(data)",
    ),
    Walk("a model that is not bound", "LinearGaussian(data)", r"LinearGaussian\(\)\.bind\(data\)", "REMEDY"),
    Walk(
        "mean-only invariance on demand",
        "LinearGaussian(invariance='mean', second_moments='on demand')",
        r"second_moments='all'",
        "BIP(LinearGaussian(invariance='mean', REMEDY)).fit(data)",
    ),
    Walk(
        "a Bayesian model that is not bound",
        "BayesianLinearGaussian(data)",
        r"BayesianLinearGaussian\(\)\.bind\(data\)",
        "REMEDY",
    ),
    Walk(
        "a prior worth nothing",
        "BayesianLinearGaussian(prior_rows=0)",
        r"prior_rows=1\.0",
        "BIP(BayesianLinearGaussian(REMEDY)).fit(data)",
    ),
    Walk(
        "a class instead of a specification",
        "BIP(family=LinearGaussian).fit(data)",
        r"LinearGaussian\(\)",
        "BIP(family=REMEDY).fit(data)",
    ),
    Walk(
        "gaps in a table", "from_table(gaps, 'y', 'site')", r"missing='drop'", "from_table(gaps, 'y', 'site', REMEDY)"
    ),
    *(
        Walk(
            f"environments: {name}",
            f"from_table(table, 'y', 'site', {given})",
            remedy,
            "from_table(table, 'y', 'site', REMEDY)",
            setup="table = table.assign(site=['north', 'south', 'east'] * 10)",
            fill=fill,
        )
        for name, given, remedy, fill in (
            ("one to leave out", "drop_environments='north'", r"drop_environments=\['north'\]", {}),
            (
                "nothing to merge into",
                "merge_environments=['north', 'south']",
                r"(?<=pass )merge_environments=.*?}",
                {"one label": "north", "another label": "south"},
            ),
            ("too many rows asked for", "min_rows=99", r"(?<=Use )min_rows=\d+", {}),
        )
    ),
    Walk("one environment to choose", "data.choosing('north')", r"\['north'\]", "data.choosing(REMEDY)"),
    Walk(
        "gaps that cost most rows",
        "from_table(hollow, 'y', 'site')",
        r"exclude=\['c'\]",
        "from_table(hollow, 'y', 'site', REMEDY)",
    ),
    Walk("gaps in labels", "from_arrays(X, y, holes)", r"missing='drop'", "from_arrays(X, y, holes, REMEDY)"),
    Walk(
        "gaps in fit",
        "BIP().fit(X, y, environments=environments)",
        r"fit_data\(MultiEnvironmentData.*?\)\)",
        "BIP().REMEDY",
        setup="X = gaps[['a', 'b']].to_numpy()",
    ),
    Walk(
        "gaps in fit without labels",
        "BIP().fit(X, y)",
        r"fit_data\(MultiEnvironmentData.*?\)\)",
        "BIP().REMEDY",
        setup="X = gaps[['a', 'b']]",
    ),
    Walk(
        "gaps in fit with a column of labels",
        "BIP(environment='site').fit(X, y)",
        r"fit_data\(MultiEnvironmentData.*?\)\)",
        "BIP(environment='site').REMEDY",
        setup="X = gaps[['a', 'b', 'site']]",
    ),
    Walk(
        "gaps in fit with a column of labels, polars",
        "BIP(environment='site').fit(X, y)",
        r"fit_data\(MultiEnvironmentData.*?\)\)",
        "BIP(environment='site').REMEDY",
        setup="X = pl.from_pandas(gaps[['a', 'b', 'site']])",
    ),
    Walk(
        "text in a table",
        "from_table(words, 'y', 'site')",
        r"exclude=\['b'\]",
        "from_table(words, 'y', 'site', REMEDY)",
    ),
    Walk(
        "text in a table as levels",
        "from_table(words, 'y', 'site')",
        r"categorical=\['b'\]",
        "from_table(words, 'y', 'site', REMEDY)",
    ),
    Walk(
        "labels as a feature",
        "from_table(twin, 'y', 'site')",
        r"exclude=\['site 2'\]",
        "from_table(twin, 'y', 'site', REMEDY)",
        setup="twin = table.assign(**{'site 2': table['site']})",
    ),
    Walk(
        "text in fit",
        "BIP().fit(words[['a', 'b']], y, environments=labels)",
        r"categorical=\['b'\]",
        "BIP(REMEDY).fit(words[['a', 'b']], y, environments=labels)",
    ),
    Walk(
        "text in fit of another method",
        "ICP().fit(codes[['a', 'b']], y, environments=labels)",
        r"fit_data\(MultiEnvironmentData\.from_arrays\(\.\.\.\)\)",
        "ICP().REMEDY",
        fill={"...": "codes[['a', 'b']], y, labels, numeric=['b']"},
    ),
    Walk(
        "numbers as text",
        "from_table(codes, 'y', 'site')",
        r"numeric=\['b'\]",
        "from_table(codes, 'y', 'site', REMEDY)",
    ),
    Walk(
        "numbers as text, converted",
        "from_table(codes, 'y', 'site')",
        r"\.astype\(float\)",
        "from_table(codes.assign(b=codes['b']REMEDY), 'y', 'site')",
    ),
    Walk(
        "moments of other levels",
        "merged('auto')",
        r"(?<=categorical=)\{.*\}",
        "merged(REMEDY)",
        setup="def merged(levels):\n"
        "    tables = [table.assign(c=np.resize(names, 30)) for names in (['u', 'v'], ['w', 'v'])]\n"
        "    parts = [Moments.from_data(from_table(t, 'y', 'site', categorical=levels)) for t in tables]\n"
        "    assert parts[0].merge(parts[1]).feature_names == ('a', 'b', 'c')",
    ),
    Walk(
        "levels as text",
        "from_table(words, 'y', 'site', categorical={'b': 'u'})",
        r"categorical=\{'b': \['a', 'b'\]\}",
        "from_table(table.assign(b=np.resize(['a', 'b'], 30)), 'y', 'site', REMEDY)",
    ),
    Walk(
        "columns as text",
        "from_table(table, 'y', 'site', categorical='a')",
        r"categorical=\['a'\]",
        "from_table(table, 'y', 'site', REMEDY)",
    ),
    Walk(
        "columns as a number",
        "from_table(table, 'y', 'site', exclude=3)",
        r"exclude=\['name', \.\.\.\]",
        "from_table(table, 'y', 'site', REMEDY)",
        fill={"'name', ...": "'a'"},
    ),
    Walk(
        "groups without names",
        "from_table(table, 'y', 'site', groups=['a', 'b'])",
        r"groups=\{'region': \['r1', 'r2'\]\}",
        "from_table(table, 'y', 'site', REMEDY)",
        fill={"r1": "a", "r2": "b"},
    ),
    Walk(
        "terms without names",
        "from_table(table, 'y', 'site', groups=3)",
        r"groups=\[spline\('age', knots=4\)\]",
        "from_table(table, 'y', 'site', REMEDY)",
        fill={"age": "a"},
    ),
    Walk(
        "a group of text",
        "from_table(table, 'y', 'site', groups={'g': 'a'})",
        r"groups=\{'g': \['a', 'b'\]\}",
        "from_table(table, 'y', 'site', REMEDY)",
    ),
    Walk(
        "a spline of a number",
        "spline(3)",
        r"spline\('age', knots=4\)",
        "from_table(table, 'y', 'site', groups=[REMEDY])",
        fill={"age": "a"},
    ),
    Walk(
        "a spline of few values",
        "from_table(tied, 'y', 'site', groups=[spline('a', knots=4)])",
        r"spline\('a', knots=3\)",
        "from_table(tied, 'y', 'site', groups=[REMEDY])",
    ),
    Walk(
        "unknown levels",
        "BIP(handle_unknown='drop').fit(data)",
        r"'ignore'",
        "BIP(handle_unknown=REMEDY).fit(data)",
    ),
    Walk(
        "settings of tables for data",
        "BIP(categorical=['b'], groups=[spline('a')]).fit(data)",
        r"set_params\(.*?\)",
        "BIP(categorical=['b'], groups=[spline('a')]).REMEDY.fit(data)",
    ),
    Walk(
        "settings of tables for data, said to their reader",
        "BIP(groups=[spline('a')]).fit(data)",
        r"MultiEnvironmentData\.from_table\(.*?\)\]\)",
        "BIP().fit(REMEDY)",
        fill={"...": "table, 'y', 'site'"},
    ),
    Walk(
        "settings of tables for a method behind a screen",
        "Screened(BIP(columns=Columns(environment='site', handle_unknown='ignore'))).fit(table[['a', 'b', 'site']], y)",
        r"set_params\(.*?\)",
        "Screened(BIP(columns=Columns(environment='site'))).REMEDY.fit(table[['a', 'b', 'site']], y)",
    ),
    Walk(
        "gaps in fit with settings of tables",
        "BIP(categorical={'b'}, groups={'g': ('b', spline('a'))}).fit(X, y, environments=environments)",
        r"set_params\(.*?\)\.fit_data\(MultiEnvironmentData.*?missing='drop'.*\)\)(?= leaves)",
        "BIP(categorical={'b'}, groups={'g': ('b', spline('a'))}).REMEDY",
        setup="X = gaps[['a', 'b']].assign(b=np.resize([1.0, 2.0, 3.0], len(gaps)))",
    ),
    Walk(
        "features as text",
        "from_table(table, 'y', 'site', features='a,b')",
        r"features=\['a', 'b'\]",
        "from_table(table, 'y', 'site', REMEDY)",
    ),
    Walk(
        "features as a number",
        "from_table(table, 'y', 'site', features=3)",
        r"features=\['name', \.\.\.\]",
        "from_table(table, 'y', 'site', REMEDY)",
        fill={"'name', ...": "'a'"},
    ),
    Walk(
        "no features",
        "from_table(table, 'y', 'site', features=[])",
        r"features=None",
        "from_table(table, 'y', 'site', REMEDY)",
    ),
    Walk(
        "unknown treatment of gaps",
        "from_table(gaps, 'y', 'site', missing='skip')",
        r"missing='drop'",
        "from_table(gaps, 'y', 'site', REMEDY)",
    ),
    Walk(
        "max_size beyond the rows",
        "BIP(prior=UniformPrior(max_size=9)).fit(short)",
        r"max_size=\d+(?=, the largest)",
        "BIP(prior=UniformPrior(REMEDY)).fit(short)",
    ),
    Walk(
        "lazy frame",
        "from_table(lazy, 'y', 'site')",
        r"\.collect\(\)",
        "from_table(lazyREMEDY, 'y', 'site')",
        setup="lazy = pl.from_pandas(table).lazy()",
    ),
    Walk(
        "sparse matrix",
        "from_arrays(X, y, environments)",
        r"X\.toarray\(\)",
        "from_arrays(REMEDY, y, environments)",
        setup="X = scipy.sparse.csr_matrix(X)",
    ),
    Walk(
        "object array",
        "from_arrays(X, y, environments)",
        r"\.astype\(float\)",
        "from_arrays(XREMEDY, y, environments)",
        setup="X = X.astype(object)",
    ),
    Walk(
        "numbers as text, pandas",
        "from_table(table, 'y', 'site')",
        r"\.\w+\(float\)",
        "from_table(table.assign(a=table['a']REMEDY), 'y', 'site')",
        setup="table = table.astype({'a': str})",
    ),
    Walk(
        "numbers as text, polars",
        "from_table(table, 'y', 'site')",
        r"\.\w+\(float\)",
        "from_table(table.with_columns(table['a']REMEDY), 'y', 'site')",
        setup="table = pl.from_pandas(table.astype({'a': str}))",
    ),
    Walk(
        "one dimension",
        "from_arrays(X, y, environments)",
        r"X\.reshape\(-1, 1\)",
        "from_arrays(REMEDY, y, environments)",
        setup="X = X[:, 0]",
    ),
    Walk(
        "labels as one string",
        "BIP().fit(X, y, environments='site')",
        r"table\['site'\]",
        "BIP().fit(X, y, environments=REMEDY)",
    ),
    Walk("an array as table", "from_table(X, 'y', 'site')", r"MultiEnvironmentData\.from_arrays\(.*?\)", "REMEDY"),
    Walk(
        "an array to compare",
        "compare(X)",
        r"MultiEnvironmentData\.from_table\(.*?\)",
        "compare(REMEDY, 'Marginal')",
        fill={"outcome=...": "outcome='y'", "environment=...": "environment='site'"},
    ),
    Walk(
        "a table to fit_data",
        "BIP().fit(table)",
        r"MultiEnvironmentData\.from_table\(.*?\)",
        "BIP().fit(REMEDY)",
        fill={"outcome=...": "outcome='y'", "environment=...": "environment='site'"},
    ),
    Walk(
        "gaps in the outcome in fit",
        "BIP().fit(X, y, environments=environments)",
        r"fit_data\(MultiEnvironmentData.*?\)\)",
        "BIP().REMEDY",
        setup="y = [float('nan'), *y[1:]]",
    ),
    *(
        Walk(
            f"{method} without labels",
            f"{method}().fit(X, y)",
            r"fit\(X, y, environments=labels\)",
            f"{method}().REMEDY",
        )
        for method in ("BIP", "ICP", "HiddenICP", "EILLS")
    ),
    Walk(
        "no such column of labels",
        "BIP(environment='nowhere').fit(X, y)",
        r"fit\(X, y, environments=labels\)",
        "BIP().REMEDY",
    ),
    Walk("no outcome", "BIP().fit(table[['site']], None)", r"fit\(X, y, environments=labels\)", "BIP().REMEDY"),
    Walk("select", "BIP(select='best').fit(data)", r"(?<=use )'\w+'", "BIP(select=REMEDY).fit(data)"),
    Walk(
        "family",
        "BIP(family='x').fit(data)",
        r"(?<=use )'\w+'",
        "BIP(family=REMEDY).fit(data)",
    ),
    Walk("engine", "BIP(engine='x').fit(data)", r"Enumeration\(\)", "BIP(engine=REMEDY).fit(data)"),
    Walk("progress", "BIP(progress='x').fit(data)", r"'auto'", "BIP(progress=REMEDY).fit(data)"),
    Walk("solver", "EILLS(solver='x').fit(data)", r"(?<=use )'\w+'", "EILLS(solver=REMEDY).fit(data)"),
    Walk("screen of vi", "vi(screen='x')", r"(?<=use )'\w+'", "vi(screen=REMEDY)"),
    Walk("infeasible", "vi(infeasible='x')", r"(?<=use )'\w+'", "vi(infeasible=REMEDY)"),
    Walk("components", "vi(components='x')", r"(?<=use )'\w+'", "vi(components=REMEDY)"),
    Walk(
        "hours of enumeration",
        "BIP(engine=Enumeration(time_limit=0.0)).fit(data)",
        r"engine=Enumeration\(.*?\)",
        "BIP(REMEDY).fit(data)",
    ),
    Walk(
        "too few sweeps",
        "BIP(engine=Tempering(chains=2, steps=25, agreement=1.0000001), random_state=0).fit(data)",
        r"Tempering\(chains=8, steps=20_000\)",
        "BIP(engine=REMEDY).fit(data)",
    ),
    Walk(
        "a missed mode",
        "DrawnSource(Target(LinearGaussian().bind(data), prior), -1e9, None).log_probability(np.ones((1, 2), bool))",
        r"Tempering\(searches=20\)",
        "BIP(engine=REMEDY).fit(data)",
    ),
    Walk(
        "a Lasso without rows",
        "Variational(screen='lasso', screened=1)"
        ".run(Target(LinearGaussian().bind(Moments.from_data(data)), prior), RunOptions())",
        r"Variational\(.*?\)",
        "BIP(engine=REMEDY).fit(data)",
    ),
    Walk(
        "too many folds",
        "LassoSelection(cv=99).fit(data)",
        r"LassoSelection\(cv=\d+\)",
        "REMEDY.fit(data)",
    ),
    Walk(
        "too many folds of a screen",
        "Screened(HiddenICP(), screen=LassoScreen(k=1, cv=99)).fit(data)",
        r"Screened\(HiddenICP\(\), screen=LassoScreen\(cv=\d+, k=1\)\)",
        "REMEDY.fit(data)",
    ),
    Walk(
        "too many folds of a screen alone",
        "LassoScreen(k=1, cv=99).screen(data)",
        r"LassoScreen\(cv=\d+, k=1\)",
        "REMEDY.screen(data)",
    ),
    *(
        Walk(
            f"few rows and many features for {method}",
            f"{method}().fit({data})",
            rf"Screened\({method}\(\), screen=LassoScreen\([^()]*\)\)",
            f"REMEDY.fit({data})",
        )
        for method, data in (("HiddenICP", "flat"), ("HiddenICP", "short"), ("ICP", "flat"), ("EILLS", "flat"))
    ),
    Walk("too many subsets", "ICP().fit(wide)", r"ICP\(max_size=\d+\)", "REMEDY.fit(wide)"),
    Walk("too many subsets, screened", "ICP().fit(wide)", r"Screened\(ICP\(\)\)", "REMEDY.fit(wide)"),
    Walk("too few rows for ICP", "ICP().fit(short)", r"ICP\(max_size=\d+\)", "REMEDY.fit(short)"),
    Walk("too many for EILLS", "EILLS().fit(wide)", r"Screened\(EILLS\(\)\)", "REMEDY.fit(wide)"),
    Walk("too many for Hidden-ICP", "HiddenICP().fit(wide)", r"Screened\(\w+\(\)\)", "REMEDY.fit(wide)"),
    Walk(
        "Oracle without truth",
        "Oracle().fit(data)",
        r"Oracle\(support=\[\.\.\.\]\)",
        "REMEDY.fit(data)",
        fill={"...": "'a'"},
    ),
    Walk(
        "one name as a subset",
        "BIP().fit(data).posterior_.probability('a')",
        r"\['a'\]",
        "BIP().fit(data).posterior_.probability(REMEDY)",
    ),
    Walk(
        "nothing selected",
        "BIP(select='mode').fit(noise, y, environments=labels).transform(noise)",
        r"set_params\(select='threshold', threshold=[\d.e-]+\)",
        "make_pipeline(BIP().REMEDY, LinearRegression()).fit(noise, y, bip__environments=labels)",
    ),
    Walk(
        "nothing selected by a threshold",
        "model.fit(X, y).transform(X)",
        r"set_params\(select='threshold', threshold=[\d.e-]+\)",
        "make_pipeline(model.REMEDY, LinearRegression()).fit(X, y)",
        setup="X = table[['b', 'site']]; model = BIP(select=Threshold(0.99), columns=Columns(environment='site'))",
    ),
)

TABLE = "table.csv --outcome y --environment site"
SHELL = (
    Walk("methods beside no report", f"fit {TABLE} --compare Lasso", r"--report report\.html"),
    Walk("a sweep over gaps, in a shell", "sweep gaps.csv --environment site --out swept --jobs 1", r"--missing drop"),
    Walk("a sweep over names, in a shell", "sweep words.csv --environment site --out swept --jobs 1", r"--exclude b"),
    Walk("gaps", "fit gaps.csv --outcome y --environment site", r"--missing drop"),
    Walk("gaps that cost most rows, in a shell", "fit hollow.csv --outcome y --environment site", r"--exclude c"),
    Walk(
        "gaps that cost most rows beside what is left out",
        "fit hollow.csv --outcome y --environment site --exclude b --stream",
        r"--exclude b,c",
    ),
    Walk("gaps, compare", "compare gaps.csv --outcome y --environment site", r"--missing drop"),
    Walk("text", "fit words.csv --outcome y --environment site", r"--exclude b"),
    Walk("text as levels", "fit words.csv --outcome y --environment site", r"--categorical b"),
    Walk("max size", "fit short.csv --outcome y --environment site --max-size 9", r"--max-size \d+(?=, the largest)"),
    Walk("threshold", f"fit {TABLE} --threshold 0.3", r"--select threshold"),
    Walk("picture", f"fit {TABLE} --plot-kind coefficients", r"--plot coefficients\.png"),
    Walk("hours", f"fit {TABLE} --engine exact(time_limit=0)", r"--engine '.*?'"),
    Walk(
        "sweeps",
        f"fit {TABLE} --engine tempering(chains=2,steps=25,agreement=1.0000001)",
        r"--engine 'tempering\(chains=8, steps=20000\)'",
    ),
    Walk(
        "sweeps, compare",
        f"compare {TABLE} --methods BIP --engine tempering(chains=2,steps=25,agreement=1.0000001)",
        r"--engine 'tempering\(chains=8, steps=20000\)'",
    ),
    Walk("prior", f"fit {TABLE} --prior flat", r"beta-binomial\(1,3\)", fill={"beta": "--prior beta"}),
    Walk("subsets", "compare wide.csv --outcome y --environment site --methods ICP", r"--methods 'ICP\(.*?\)'"),
    Walk("subsets, screened", "compare wide.csv --outcome y --environment site --methods ICP", r"--methods ICP-screen"),
    Walk("EILLS", "compare wide.csv --outcome y --environment site --methods EILLS", r"--methods EILLS-screen"),
    Walk(
        "Hidden-ICP",
        "compare wide.csv --outcome y --environment site --methods Hidden-ICP",
        r"--methods Hidden-ICP-screen",
    ),
    Walk("rows for ICP", "compare short.csv --outcome y --environment site --methods ICP", r"--methods 'ICP\(.*?\)'"),
    Walk("folds", f"compare {TABLE} --methods Lasso(cv=99)", r"--methods 'Lasso\(.*?\)'"),
    Walk(
        "folds of a screen",
        "compare flat.csv --outcome y --environment site --methods Hidden-ICP-screen(k=5)",
        r"--methods 'Hidden-ICP-screen\(.*?\)'",
    ),
    *(
        Walk(
            f"{method} with few rows",
            f"compare flat.csv --outcome y --environment site --methods {method}",
            rf"--methods '{method}-screen\(.*?\)'",
        )
        for method in ("Hidden-ICP", "ICP", "EILLS")
    ),
    Walk("Oracle", f"compare {TABLE} --methods Oracle", r"--methods 'Oracle\(.*?\)'", fill={"...": "a"}),
    Walk("too many rows asked for", f"fit {TABLE} --min-rows 99", r"(?<=Use )--min-rows \d+"),
    Walk("family", f"fit {TABLE} --family guess", r"(?<=one of )auto", fill={"auto": "--family auto"}),
    Walk("engine", f"fit {TABLE} --engine guess", r"(?<=one of )'auto'", fill={"'auto'": "--engine auto"}),
)

# Remedies that a test cannot come by in a second: taken from the source, and followed.
FROM_THE_SOURCE = (
    Walk("poor vi", "with a component at each mode", r"Variational\(.*?\)", "BIP(engine=REMEDY).fit(data)"),
    Walk("lost vi", "ended where no draw can be scored", r"engine='\w+'", "BIP(REMEDY).fit(data)"),
    Walk("long states", "Set a smaller max_size", r"UniformPrior\(.*?\)", "BIP(prior=REMEDY).fit(data)"),
    Walk("rounding", "rounding decided", r"solver='\w+'", "EILLS(REMEDY).fit(data)"),
    Walk("hidden modes", "Search longer: inference", r"Tempering\(.*?\)", "BIP(engine=REMEDY).fit(data)"),
)

# Advice in words, or about an argument's form: nothing to be typed as it stands. Beginnings or parts of the messages.
IN_WORDS = (
    # tests/faces/test_cli_predict_gaps.py
    "or write them without a prediction with --missing empty",
    # tests/sources
    "in the first rows, and text in {} later on",
    "holds values of several types, or of one that cannot be used",
    "is no path on this machine: pass a reader of its rows, such as",
    "in batches: update it, or call .collect() on it first",
    # tests/faces/test_cli_files.py, tests/jobs/test_hospitals.py
    "say with read_table(path, sep={}) what separates cells",
    "for example read_table(path, sheet={})",
    "or name its encoding, for example read_table(path, encoding='latin-1')",
    "may also be read with read_table(path, sep=',')",
    "if it is not, say read_table(path, decimal='.')",
    "say which sign begins decimals, read_table(path, decimal=',') or",
    "which read_table(path, decimal=',') takes for",
    "as missing with read_table(path, na={})",
    # tests/data/test_numbers_in_text.py, tests/faces/test_cli_numbers.py
    "holds numbers with thousands (for example {}), which read_table(path, thousands=",
    ", and read_table(path, thousands=',') for thousands",
    "say so with read_table(path, thousands='.'){}; if not, write it with a comma",
    "or take all values as levels, categorical=[{}]",
    ", unless {} is {}, as read_table(path, thousands='.') reads it",
    "say so with read_table(path, thousands={}); if not, write all decimals",
    "say so with read_table(path, decimal={}); if it is {}, with read_table(path, thousands={})",
    "or name its encoding, for example read_table(path, encoding='utf-16-le')",
    "the uniform prior expects about half of the {} features",
    "if it is one, leave it out with exclude={}",  # tests/data/test_unusable_columns.py
    "--compare adds a section to a report: add --report",  # walked in a shell
    "`invariance explain` with the option --leave-out in a shell",  # tests/report/test_pages_of_all_kinds.py
    "The posterior is p(z | data)",  # a formula
    "too few for intervals={}: use intervals=",  # tests/conditionals/test_piecewise_exponential.py
    "which may reject what is invariant: use Poisson(pseudo_rows=0)",  # tests/conditionals/test_regression_remarks.py
    "times as much as a Poisson law has it: use family=",  # tests/conditionals/test_overdispersion.py
    "Run several methods on one table and show their selections",  # help of compare
    "is not known: use True, False",  # walked as "progress"
    "is not cut to a number: leave out top=",  # tests/decisions/test_plot_kinds.py
    "take one from an array, axes[0], or make one in a figure, figure.add_subplot()",  # test_plots_say_the_truth.py
    "pass model.diagnose(), a fitted model, or its model.decision_",  # test_plots_say_the_truth.py
    "has kind='inclusion' alone to draw: BIP(...).fit(X, y, environments).plot(",  # tests/decisions/test_plot_kinds.py
    "boxes stand for them in the picture. Install a font",  # tests/decisions/test_letters_of_names.py
    "cannot read {}: write a name, or name(key=value",
    "a setting is written key=value",
    "is fixed: leave --strength out",
    "simulate a network with --simulated 600",  # tests/studies/test_cli_studies.py, with fewer genes
    "leave --delta and --tau out",
    "have no intervals: leave --coverage out",  # tests/faces/test_cli_predict_outcomes.py
    "is constant and no feature: leave it out of --subset",
    "--threshold is for --select threshold",  # walked in a shell
    "draws nothing without a file: add --plot",  # walked in a shell
    "`reweighted` corrects them",
    "`reweighted` may miss it as well",
    "its inclusion probabilities count them, `reweighted` does not",
    "so do draws from sample()",
    "is not known: use 'cuda', 'cuda:1' or 'cpu'",  # tests/sweeps/test_sweep_device.py, where torch is at hand
    "does variational inference, not {}: use engine='vi'",  # the same
    "Start one with `dask scheduler`",  # tests/studies/test_dask_addresses.py
    "Start one with `dask worker {}`",  # tests/_tools/test_cluster.py
    "no feature was selected, so transform() returns",  # its remedy is another message's
    "cannot read the prior {}",  # walked in a shell
    "in the first rows of the file, and other",  # tests/data/test_encoding.py
    "does not list: {}. Add them to that list",  # tests/data/test_levels.py
    "in some rows and numbers in others: store it in one way",  # tests/moments/test_accumulator.py
    "needs quantiles of all rows, which one look",  # tests/moments/test_from_rows.py
    "moments cannot be read from a {}: pass the pyarrow.Table",  # tests/moments/test_moments_in_arrow.py
    "such tables are neither cut nor joined",  # the same
    "knots must be a whole number",
    "a saved model predicts and cannot be fitted",
    "is a posterior, from which nothing is predicted",
    "is not a saved model: its format is not {}",
    "the saved model has a regressor, which predict_with={} cannot average",
    "The files do not tell the systematic names of deleted genes",  # tests/datasets/test_yeast_text.py
    "the saved regressor holds types",  # tests/estimators/test_saved.py
    "the model has a regressor of its own and no average: leave --average out",
    "in the first rows, and text in {} later on",  # tests/faces/test_cli_streaming_refusals.py
    "; --no-stream reads it as a whole",  # tests/faces/test_cli_streaming.py
    "data frame cannot be read again here: pass the files",  # tests/sources/test_cluster_frames.py
    "fit_moments needs Moments",  # tests/data/test_features.py
    "fit(moments, rows=...) read",  # tests/moments/test_second_look.py
    "rows= needs the name of the column that holds the environment labels",  # the same
    "family='linear_gaussian' reads any number of them",  # tests/data/test_rows_that_fit.py
    "environments are compared by linear Gaussian fits",
    "--family {} is not known{} use one of",  # walked in a shell
    "; --family gaussian overrides",  # tests/faces/test_family_option.py
    "fit that outcome by itself with `invariance fit`",  # the same
    "needs to know which times {} ended with the event: give event=",  # tests/estimators/test_survival.py
    "entry= is not known",  # tests/data/test_outcomes.py
    "judge with family='linear_gaussian_mean'",  # tests/decisions/test_noise.py
    "knows the linear Gaussian conditional only, and with",  # tests/sweeps/test_sweep_device.py
    "environments are compared by fits of the linear Gaussian model or of a regression",
    "the logistic model is for outcomes with two values",  # tests/conditionals/test_regression.py
    "model is for counts, and {} is no whole number",  # the same
    "too few for subsets of {} features: use max_size={} at most",  # the same
    "Now try\n  invariance fit",  # tests/faces/test_cli.py and tests/studies/test_cli_studies.py
)
EXTRAS = r"pip install 'invariance\[(\w+)\]'"
