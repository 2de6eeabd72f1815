#!/usr/bin/env python3
"""Makes the two bundled fonts from the static fonts of Inter (Debian: fonts-inter; pip: fonttools).

    python3 subset.py /usr/share/fonts/opentype/inter .

Keeps Latin, Greek, punctuation, arrows and the few signs that pictures use; drops layout tables
(the scene places glyphs itself) but bakes in tabular figures, so that columns of numbers line up.
The output is a function of the input: no timestamps are written.
"""
import sys
from pathlib import Path
from fontTools import subset, ttLib

KEEP = [(0x20, 0x7E), (0xA0, 0x17F), (0x386, 0x3CE), (0x2010, 0x2027), (0x2030, 0x2033),
        (0x2039, 0x203A), (0x2070, 0x2089), (0x20AC, 0x20AC), (0x2190, 0x2199), (0x2202, 0x2202),
        (0x2206, 0x2206), (0x2211, 0x2212), (0x221A, 0x221A), (0x221E, 0x221E), (0x2248, 0x2248),
        (0x2260, 0x2265), (0x25A0, 0x25CF), (0x2713, 0x2717), (0xFFFD, 0xFFFD)]


def tabular(font):
    """Points the digits of the character map at their tabular forms (feature tnum)."""
    for record in font["GSUB"].table.FeatureList.FeatureRecord:
        if record.FeatureTag != "tnum":
            continue
        for index in record.Feature.LookupListIndex:
            for table in font["GSUB"].table.LookupList.Lookup[index].SubTable:
                table = getattr(table, "ExtSubTable", table)
                for cmap in font["cmap"].tables:
                    for code in range(ord("0"), ord("9") + 1):
                        name = cmap.cmap.get(code)
                        cmap.cmap[code] = getattr(table, "mapping", {}).get(name, name)


def main(source, target):
    for style in ["Regular", "SemiBold"]:
        font = ttLib.TTFont(Path(source) / f"Inter-{style}.otf", recalcTimestamp=False)
        tabular(font)
        options = subset.Options(layout_features=[], hinting=False, notdef_outline=True,
                                 desubroutinize=True,
                                 name_IDs=[0, 1, 2, 3, 4, 5, 6, 13, 14, 16, 17],
                                 drop_tables=["GSUB", "GPOS", "GDEF", "DSIG", "meta"])
        cut = subset.Subsetter(options)
        cut.populate(unicodes=[code for low, high in KEEP for code in range(low, high + 1)])
        cut.subset(font)
        font.save(Path(target) / f"Inter-{style}.otf")


main(*sys.argv[1:])
