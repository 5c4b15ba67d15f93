"""The formats of a page's lines in a Qt document: fonts, margins, colours.

Properties of the formats also record the kind of text, so that a copy leaves out what no one wrote.
Knows pages and Qt; no widgets.
"""

from dataclasses import replace

from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QFontDatabase,
    QFontInfo,
    QFontMetricsF,
    QTextBlockFormat,
    QTextCharFormat,
    QTextFormat,
    QTextFrameFormat,
    QTextOption,
    QTextTableFormat,
)

from app.markdown.formulas import FormulaLayouts, formula_format, formula_size
from app.markdown.inline import is_web
from app.markdown.page import BlockStyle, Role, Style, Table, Tone
from app.markdown.tables import describe_widths, fit_widths
from app.theme.palette import LineStyle, Palette

ROLE = int(QTextFormat.Property.UserProperty) + 1  # of characters: their Role
SHAPE = ROLE + 1  # of blocks, as in their BlockStyle
PANEL = ROLE + 2
JOINED = ROLE + 3
BARS = ROLE + 4
REJECTED = ROLE + 5  # of characters: the number of the rejected or discarded token
TOKEN = ROLE + 6  # of a layout format: it marks a token's kind
UNDERLINES: dict[LineStyle, QTextCharFormat.UnderlineStyle] = {
    "none": QTextCharFormat.UnderlineStyle.NoUnderline,
    "solid": QTextCharFormat.UnderlineStyle.SingleUnderline,
    "dash": QTextCharFormat.UnderlineStyle.DashUnderline,
    "dot": QTextCharFormat.UnderlineStyle.DotLine,
    "dash dot": QTextCharFormat.UnderlineStyle.DashDotLine,
    "strike": QTextCharFormat.UnderlineStyle.NoUnderline,
    "dash strike": QTextCharFormat.UnderlineStyle.NoUnderline,
}

CODE_PADDING = 12  # pixels
_HEADINGS = (1.5, 1.28, 1.14, 1.05, 1.0, 1.0)
_LEADING = {"text": 1.5, "summary": 1.5, "plain": 1.5, "code": 1.4}  # of the font's size
_PROSE = "The quick brown fox jumps over the lazy dog, and then it rests for a while in the sun."
_MEASURE = 75  # characters of a line of prose, at most
_POINTS = int(QTextFormat.Property.FontPointSize)
_HANG = 7  # pixels from a list's marker to its text
_USUAL_HEIGHT = 17  # the font for which such distances are made; a larger font needs more


class Formats:
    """The formats for one font and one set of colours; each is made once.

    `formulas` lays out formulas. Without it, their source is shown.
    """

    def __init__(
        self, font: QFont, colours: Palette, *, formulas: FormulaLayouts | None = None
    ) -> None:
        self.font = font
        self.colours = colours
        self.formulas = formulas
        self._fixed = QFontDatabase.systemFont(QFontDatabase.SystemFont.FixedFont)
        self._size = font.pointSizeF() if font.pointSizeF() > 0 else 11.0
        self._scale = max(1.0, QFontMetricsF(font).height() / _USUAL_HEIGHT)
        metrics = QFontMetricsF(font)
        self._letter = metrics.horizontalAdvance(_PROSE) / len(_PROSE)
        self._line = 100 * QFontInfo(font).pixelSize() / max(1.0, metrics.height())
        self.measure = round(_MEASURE * self._letter)  # pixels of a line of prose, at most
        self._tab = 4 * QFontMetricsF(self._code_font()).horizontalAdvance(" ")
        self._characters: dict[tuple[Style, int, bool, bool], QTextCharFormat] = {}

    def characters(self, style: Style, block_style: BlockStyle) -> QTextCharFormat:
        """Return the format of characters of this style in a line."""
        if block_style.shape == "rule":
            return self.gap()[1]
        key = (
            style,
            block_style.level if block_style.shape == "heading" else 0,
            block_style.panel is not None,
            block_style.reasoning,
        )
        known = self._characters.get(key)
        if known is None:
            known = self._make(style, level=key[1], inside_panel=key[2])
            if block_style.reasoning:
                known.setForeground(QColor(self.colours.muted))
                if not known.hasProperty(_POINTS):
                    known.setFontPointSize(self._size * 0.9)
            self._characters[key] = known
        return known

    def formula(
        self, style: Style, block_style: BlockStyle, *, layouts: FormulaLayouts
    ) -> QTextCharFormat:
        """Return the format of a formula's character; the text around it gives its size."""
        around = self.characters(replace(style, formula=""), block_style)
        source = self.characters(replace(style, formula="", code=True), block_style)
        font = QFont(self.font)
        if around.hasProperty(_POINTS):
            font.setPointSizeF(around.fontPointSize())
        em = formula_size(font)
        return formula_format(source, style.formula, em=em, find=layouts.find)

    def block(self, block_style: BlockStyle) -> QTextBlockFormat:
        """Return the format of a line: its margins and its distance from the line above."""
        made = QTextBlockFormat()
        made.setProperty(SHAPE, block_style.shape)
        made.setTopMargin(block_style.above * self._scale)
        left = block_style.left * self._scale
        if block_style.panel is not None:
            made.setProperty(PANEL, block_style.panel)
            made.setRightMargin(CODE_PADDING)
            left += CODE_PADDING
        if block_style.bars:
            bars = [f"{bar.left * self._scale:g}:{bar.tone}" for bar in block_style.bars]
            made.setProperty(BARS, bars)
        if block_style.joined:
            made.setProperty(JOINED, True)
        if block_style.shape == "code":
            made.setTabPositions(
                [QTextOption.Tab(self._tab * n, QTextOption.TabType.LeftTab) for n in range(1, 40)]
            )
        made.setNonBreakableLines(block_style.shape == "code")
        if leading := _LEADING.get(block_style.shape):
            proportional = QTextBlockFormat.LineHeightTypes.ProportionalHeight.value
            made.setLineHeight(leading * self._line, proportional)
        if block_style.shape == "heading":
            made.setHeadingLevel(block_style.level)
        if block_style.marker:
            width = QFontMetricsF(self.font).horizontalAdvance(block_style.marker)
            hang = width + _HANG * self._scale
            made.setTextIndent(-hang)
            # A stop counts from where the block's first line begins. From right to left, Qt
            # exchanges the types.
            tab = QTextOption.TabType.RightTab if block_style.rtl else QTextOption.TabType.LeftTab
            made.setTabPositions([QTextOption.Tab(hang, tab)])
        if block_style.rtl:
            made.setLayoutDirection(Qt.LayoutDirection.RightToLeft)
            made.setRightMargin(left)
        else:
            made.setLeftMargin(left)
        match block_style.alignment:
            case "center":
                made.setAlignment(Qt.AlignmentFlag.AlignHCenter)
            case "right":
                made.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignAbsolute)
            case "left":
                made.setAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignAbsolute)
        return made

    def gap(self) -> tuple[QTextBlockFormat, QTextCharFormat]:
        """Return the formats of the empty block that a document needs around a table, as small as
        possible."""
        block, characters = QTextBlockFormat(), QTextCharFormat()
        block.setLineHeight(1, QTextBlockFormat.LineHeightTypes.FixedHeight.value)
        characters.setFontPointSize(1)
        return block, characters

    def table(self, table: Table, *, width: float, beside: int) -> QTextTableFormat:
        """Return the format of a table: its position, its lines, and its widths on a page of this
        `width`. It may use the pixels `beside` the prose."""
        block_style = table.block
        made = QTextTableFormat()
        made.setBorder(1)
        made.setBorderCollapse(True)
        made.setBorderStyle(QTextFrameFormat.BorderStyle.BorderStyle_Solid)
        made.setBorderBrush(QBrush(QColor(self.colours.edge)))
        made.setCellPadding(6)
        made.setCellSpacing(0)
        made.setTopMargin(0 if block_style.joined else max(6, block_style.above * self._scale))
        made.setBottomMargin(13)  # Qt drops the margin of the block after a table
        made.setLeftMargin(block_style.left * self._scale)
        made.setHeaderRowCount(0 if block_style.joined else 1)
        describe_widths(made, table, self.font, self._letter)
        fit_widths(made, width=width, beside=beside)
        return made

    def tone(self, tone: Tone | str) -> QColor:
        """Return the colour of an admonition, or of a quote's bar without a tone."""
        colours = self.colours
        tones = {
            "note": colours.link,
            "tip": colours.accepted,
            "important": colours.bonus,
            "warning": colours.warning,
            "caution": colours.rejected,
        }
        return QColor(tones.get(tone, colours.bar))

    def header(self) -> QBrush:
        """The background of a table's header."""
        return QBrush(QColor(self.colours.code))

    def _make(self, style: Style, *, level: int, inside_panel: bool) -> QTextCharFormat:
        colours = self.colours
        made = QTextCharFormat()
        made.setProperty(ROLE, style.role)
        made.setForeground(QColor(colours.text))
        if style.code:
            made.setFont(
                self._code_font(),
                QTextCharFormat.FontPropertiesInheritanceBehavior.FontPropertiesSpecifiedOnly,
            )
            if not inside_panel:  # it would cover descenders of the line above
                made.setBackground(QColor(colours.code))
        if level:
            made.setFontPointSize(self._size * _HEADINGS[level - 1] * (0.95 if style.code else 1))
        if style.small and not level:
            made.setFontPointSize(self._size * 0.87)
            made.setForeground(QColor(colours.muted))
        if style.tone:
            made.setForeground(self.tone(style.tone))
        if style.marked:
            made.setBackground(QColor(colours.found))
        if style.bold:
            made.setFontWeight(QFont.Weight.Bold)
        if style.script:
            made.setVerticalAlignment(
                QTextCharFormat.VerticalAlignment.AlignSuperScript
                if style.script == "above"
                else QTextCharFormat.VerticalAlignment.AlignSubScript
            )
        made.setFontItalic(style.italic)
        made.setFontStrikeOut(style.struck)
        made.setFontUnderline(style.underlined)
        if style.href:
            made.setAnchor(True)
            made.setAnchorHref(style.href)
        if is_web(style.href):
            made.setForeground(QColor(colours.link))
            made.setFontUnderline(True)
        if style.rejected >= 0:
            made.setProperty(REJECTED, style.rejected)
        self._add_role(made, style.role)
        return made

    def _add_role(self, made: QTextCharFormat, role: Role) -> None:
        colours = self.colours
        match role:
            case "marker":
                made.setForeground(QColor(colours.muted))
            case "label":
                made.setForeground(QColor(colours.muted))
                made.setFontPointSize(self._size * 0.85)
                made.setFontUnderline(False)
            case "control":
                made.setForeground(QColor(colours.warning))
                made.setBackground(QColor(colours.code))
                made.setFontPointSize(self._size * 0.8)
            case "rejected" | "discarded":
                made.setForeground(QColor(colours.of(role)))
                made.setFontPointSize(self._size * 0.8)

    def _code_font(self) -> QFont:
        font = QFont(self._fixed)
        font.setPointSizeF(self._size * 0.95)
        return font
