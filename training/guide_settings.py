"""Record in each built-in guide the setting that it was fitted in.

    python training/guide_settings.py

A guide that `quasir tune --guide` writes has its setting already; this is for guides that were
fitted before settings were recorded. Their factors do not change.
"""

from dataclasses import replace

import quasir as qr
from quasir import recipes
from quasir.recipes.building import BUILT_IN_GUIDES, build
from quasir.recipes.schema import Source
from quasir.text.fingerprints import find_setting


def main():
    """Write every built-in guide again, with the setting of its recipe's base."""
    for name, path in BUILT_IN_GUIDES.items():
        place = recipes.find(name.removeprefix("quasir/"))
        plain = recipes.read(place).model_copy(update={"proposal": Source()})
        base = build(plain, place.parent).base
        replace(qr.guides.load(path), setting=find_setting(base)).save(path)
        print(f"{name}: {find_setting(base).to_dict()}")


if __name__ == "__main__":
    main()
