# SPDX-License-Identifier: Apache-2.0
"""`tools/docs`: write every generated part of the documentation."""

from __future__ import annotations

from tools.documentation.parts import ROOT, generated

for path, text in generated().items():
    if not path.exists() or path.read_text() != text:
        path.write_text(text)
        print(f"written: {path.relative_to(ROOT)}")
