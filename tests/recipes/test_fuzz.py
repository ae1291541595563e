"""Whatever a file holds, reading it gives a Recipe or a RecipeError, and soon."""

import contextlib

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import quasir as qr
from quasir import recipes
from quasir.recipes.building import features_of
from quasir.recipes.explain import asked
from tests.recipes.corpus import TEXTS

BUILT_IN = [path.read_text() for path in recipes.BUILT_IN.values()]
OTHERS = [
    "base: {table: {a: 0.4, ab: 0.3, c: 0.2}}\nfeatures: {isa: {contains: a}, l: {search: ..}}\n"
    "want: {isa: 0.5}\nlambda: {l: 3}\nproposal: {mixture: [base, {table: {a: 1}, weight: 2}]}\n",
    "base: {model: x, prompt: a, temperature: 0.5, top_k: 3, top_p: 0.9, dtype: float16}\n"
    "features: {s: {similarity: {text: a, above: 0.9}}, n: {length: words}, m: {python: m.py:f}}\n"
    "proposal: {round_trip: {there: a, back: b, text: c, beams: 3, top_k: 4}}\n"
    "choose: {log_beta: 3}\nseed: 5\nfit: 100\nmax_tokens: 7\n",
]
SEEDS = [*BUILT_IN, *OTHERS]
SHORT = [text for text, *_ in TEXTS.values() if len(text) < 2000]
KEYS = sorted(
    {
        *recipes.Recipe.model_fields,
        *("lambda", "model", "adapter", "table", "poisson", "mixture", "weight", "round_trip"),
        *(
            "words",
            "contains",
            "search",
            "regex",
            "pronouns",
            "length",
            "similarity",
            "python",
            "case",
        ),
        *("python", "case", "temperature", "top_k", "source", "revision", "tvd", "beta"),
        *("isa", "female"),
    }
)
ODD = [
    *("~", "yes", "no", "1", "-1", "0", "1e5", "1e400", "1.0e+308", "-.inf", ".nan", "'5'", "''"),
    *("[]", "{}", "[[]]", "{a: 1}", "*a", "&a", "!!int", "!!set", "<<", "2024-02-30", "0100"),
    *('"\\u202e"', '"\\0"', '"\\ud800"', "base", "x" * 300, "9" * 500, "%", "@", "`", "? ", "---"),
    *("(a+)+b", "'('", "'[['", "../x.py:f", "a/b.py:g", "quasir/biographies", "0x_", "1:30", "\t"),
]

scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=20),
    st.sampled_from([10**400, 2**200, "base", "female", "(", "a" * 500, "\u202e", "1e5"]),
)
values = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.one_of(st.sampled_from(KEYS), scalars), inner, max_size=4),
    ),
    max_leaves=12,
)


@st.composite
def mutated(draw):
    """Return a recipe with some of its parts replaced, doubled, left out or inserted."""
    text = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        end = min(len(text), start + draw(st.sampled_from([0, 0, 1, 3, 10, 40])))
        piece = draw(
            st.one_of(
                st.sampled_from(ODD),
                st.sampled_from(KEYS).map(lambda key: f"{key}: "),
                st.sampled_from(SEEDS).map(lambda other, start=start, end=end: other[start:end]),
                st.text(max_size=5),
            )
        )
        text = text[:start] + piece + text[end:]
    return text


@st.composite
def replaced(draw):
    """Return a recipe in which one value, behind a colon, is another."""
    text = draw(st.sampled_from(SEEDS))
    places = [i for i, c in enumerate(text) if text[i : i + 2] == ": "]
    start = draw(st.sampled_from(places)) + 2
    ends = [i for i in range(start, len(text)) if text[i] in ",}\n"]
    return text[:start] + draw(st.sampled_from(ODD)) + text[ends[0] :]


texts = st.one_of(mutated(), replaced(), st.sampled_from(SHORT), st.text())


def reads(make):
    """Read a recipe; if it is one, everything that needs no model works."""
    try:
        recipe = make()
    except qr.errors.RecipeError as error:
        message = str(error)
        assert len(message) < 20_000
        assert message.replace("\n", "").isprintable()
        return
    again = recipes.parse(recipes.dump(recipe), "again.yaml")
    assert again == recipe
    assert recipe.unfitted == again.unfitted
    assert all(isinstance(sentence, str) for sentence in asked(recipe))
    with contextlib.suppress(qr.errors.QuasirError):
        features_of(recipe, recipes.parsing.FOLDER, allow_code=None)


few = settings(max_examples=150, suppress_health_check=list(HealthCheck))


@few
@given(texts)
@example("base: {poisson: 3}\nwant: {'\u202e': 1}")
def test_texts(text):
    reads(lambda: recipes.parse(text, "fuzz.yaml"))


@few
@given(values)
def test_dictionaries(value):
    reads(lambda: recipes.from_dict(value))


def test_the_fuzzer_sees_both():
    """Mutations that are all refused, or all read, would test little."""
    read, refused = 0, 0

    @settings(max_examples=200, suppress_health_check=list(HealthCheck), database=None)
    @given(replaced())
    def count(text):
        nonlocal read, refused
        try:
            recipes.parse(text, "x.yaml")
        except qr.errors.RecipeError:
            refused += 1
        else:
            read += 1

    count()
    assert min(read, refused) >= 10
