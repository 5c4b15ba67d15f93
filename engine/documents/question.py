"""Reads a question: its distinctive words, and whether it asks about all of a document.

Knows how seven languages ask for summaries, counts, totals and the like. A question without any
function words may be in each of them. Knows no document.
"""

import re
from collections.abc import Collection, Mapping
from functools import cache

from engine.documents.languages import ENGLISH, function_words, languages_of
from engine.documents.named_places import named_places
from engine.documents.words import WORD, folded, plain

_READ = 10_000  # characters of a question: a longer one is mostly a text
_MOST_TERMS = 64
_FEW_TERMS = 3  # a question with fewer, which refers to the one before, is joined with it
_LONGEST_SUFFIX = 2  # letters behind an apostrophe: we'll, what's
_TERM = re.compile(rf"{WORD}+(?:['.\-/+@:]{WORD}+)*")
_REFERS = re.compile(
    r"^\W*(and|but|how about|or|what about)\b|"
    r"\b(he|her|him|his|it|its|same|she|that|their|them|there|these|they|this|those)\b",
    re.IGNORECASE,
)

_MEASURES = (  # "how many days" asks for a length, and counts nothing
    r"(?!\s+(?:\w+\s+)?(?:euro|dollar|percent|prozent|meter|metre|metro|kilo|gram|lit(?:er|re|ro)"
    r"|second|minut|hour|day|week|month|year|sekunde|stunde|tag|woche|monat|jahr"
    r"|segundo|hora|dia|semana|mes|ano|seconde|heure|jour|semaine|mois|annee|ans\b"
    r"|or[ae]\b|giorn|settiman|ann[io]|uur|dag|we[ek]k|maand|ja+r))"
)
# Phrases between commas, without accents. "*" is the rest of a word, "..." a few words, "#" a noun
# that is counted.
_PHRASES: Mapping[str, str] = {
    "english": r"""
        summar*, tl;?dr, gist, outline, overview, synopsis, recap, abstract of, proofread,
        translate, compar(e|ison), count, number of, how often, how many#, in total,
        altogether, average, median, overall, takeaways?, conclusions?, (plot|moral) of,
        table of contents, contradict*, inconsisten*, unusual, typos?, spelling,
        what('s| is| are)? (it|this|that|these|the (* )?(document|file|text|book|paper|report|story|
        pdf|presentation|article)) ...about, what (topics|subjects|themes|areas),
        (key|main|most important|central) (* )?(points?|ideas?|topics?|themes?|facts?|figures?|
        findings?|messages?|arguments?|characters?|results?),
        (sum|totals?) (of|across|per|over), grand total, (sum|total)\W*$, (add|sum) (up|them),
        (what|which|who|whose|where|when|find|show|name) ...(?<!at )(highest|lowest|largest|
        smallest|biggest|greatest|cheapest|longest|shortest|oldest|youngest|newest|earliest|latest|
        best|worst|fewest|least|most|top \d+), most (common|frequent|often)*,
        (sort|rank|group|order|classify|categori[sz]e) ...by, rank (the|them|all),
        (complete|entire|whole) (document|file|text|book|report|table),
        explain (it|this|the|that) (document|file|text|book|paper|report|contract|code|article),
        all (its|of|the|their|these|those),
        (extract|find|give|list|name|show) ...(all|each|every)""",
    "german": """
        fass* ...zusammen, zusammen(zu)?fass*, uberblick, ubersicht, gliederung, wovon handelt,
        worum (geht|handelt), (haupt|kern)(punkt|aussage|these|thema|themen|figur|idee|gedanke)*,
        wichtigste* (punkt|aussage|these|thema|themen|figur|ergebnis|erkenntnis|inhalt|fakt)*,
        insgesamt, durchschnitt*, mittelwert, gesamt(summe|zahl|betrag|preis)*,
        (summe|anzahl|zahl) (aller|der|von), summiere, addiere, zahle? (die|alle|wie),
        wie (viele|oft)#,
        (welche*|wer|was|wann|wo) ...(hochste|niedrigste|gro(ß|ss)te|kleinste|teuerste|billigste|
        gunstigste|langste|kurzeste|alteste|jungste|neueste|fruheste|spateste|beste|schlechteste|
        haufigste|meiste|wenigste)*, (liste|nenn|zeig|find|gib|zahl)* ...(alle|jede|samtliche)*,
        aller, ubersetz*, vergleich*, korrigier*, sortier*, widerspr(u|i|e)ch*,
        (ganze|gesamte|komplette)* (dokument|datei|text|buch|bericht|tabelle)""",
    "spanish": """
        resum*, sintesis, de que (trata|va|habla), vision general, panorama, conclusion(es)?,
        (puntos|ideas|temas|personajes|datos|hechos) (principales|clave|mas *),
        en total, total (de|del), suma (de|del|total), promedio, medi[oa], cuant[oa]s#,
        mas (alt|baj|car|barat|larg|cort|grande|pequen|viej|antigu|nuev|reciente|frecuente|comun)*,
        quien ...mas, (mayor|menor|mejor|peor)(es)?, tod[oa]s (los|las), enumera, cuenta (los|las),
        traduc*, compara*, ordena, corrige""",
    "french": """
        resum*, synthese, de quoi (parle|traite|il s'agit|s'agit), vue d'ensemble, conclusions?,
        (points|idees|themes|personnages) (principa|essentiel|cle|important)*,
        au total, total (de|du|des), somme (de|du|des), moyenn?e?, combien de#, combien d'*,
        (le|la|les) (plus|moins|meilleur*|pire*), tou(s|tes) les, tradui*, compar*, trie,
        corrige, compte""",
    "italian": """
        riassu*, sintesi, di (che )?cosa (parla|tratta), panoramica, conclusion[ei],
        (punti|idee|temi|personaggi) (principali|chiave|essenziali), in totale,
        totale (di|dei|del|delle), somma, medi[oa], quant[ie]#,
        (piu|meno) (alt|bass|car|economic|lung|cort|grand|piccol|vecchi|nuov|frequent)*,
        tutt[ie] (i|gli|le), elenca, traduci, confronta, ordina""",
    "portuguese": """
        resum*, sintese, de que (trata|fala), sobre o que, visao geral, conclus(ao|oes),
        (pontos|ideias|temas|personagens) (principais|chave|essenciais), no total, total d[aeo]s?,
        soma d[aeo]s?, medi[ao], quant[oa]s#, (maior|menor)(es)?,
        mais (alt|baix|car|barat|long|curt|grand|pequen|velh|nov|frequent)*,
        tod[oa]s [oa]s, traduz*, compare, ordene""",
    "dutch": """
        vat ...samen, samenvat*, waar gaat ...over, overzicht, (hoofd|kern)(punt|gedachte|idee)*,
        belangrijkste, in totaal, totaal van, gemiddeld*, som van, hoeveel#, hoe vaak, aantal,
        (hoogste|laagste|grootste|kleinste|duurste|goedkoopste|langste|kortste|oudste|nieuwste|
        meeste|minste|beste|slechtste), (geef|noem|toon|zoek) ...alle, vertaal,
        vergelijk*, sorteer""",
}


_ABOUT_ALL_UNSPACED = re.compile(
    "总结|概括|概述|摘要|大意|总共|一共|总和|总计|平均|最[高低多少大小长短贵]|所有|全部|翻译|"
    "主要(内容|观点)|列出|讲了什么|讲什么|关于什么|多少[个条次人篇]|"
    "要約|まとめ|概要|合計|平均|すべて|全て|全部|一覧|最も|翻訳|何について|いくつ|何[件回人個]|"
    "요약|총합|합계|평균|모든|번역|무엇에 관한|몇 (개|번|명)"
)


def terms(question: str) -> tuple[str, ...]:
    """The words of a question that tell passages apart, without repetition, in order.

    Example: "What does clause 7 say about rent?" gives ("clause", "7", "rent").
    """
    stops = function_words(languages_of(question) or (ENGLISH,))
    distinct: dict[str, str] = {}
    for match in _TERM.finditer(plain(question)):
        word = match[0]
        before, _, behind = word.partition("'")
        if _stops(before, stops) and len(behind) > _LONGEST_SUFFIX:  # l'appartement
            word = before = behind
        if not _stops(before, stops):
            distinct.setdefault(word.casefold(), word)
    return tuple(distinct.values())[:_MOST_TERMS]


def _stops(word: str, stops: Collection[str]) -> bool:
    letter = len(word) == 1 and word.isascii() and word.isalpha()
    return letter or folded(word) in stops


def looked_for(question: str, asked_before: str) -> str:
    """The text whose words are looked for: the question, with the one before if it refers to it."""
    refers = 0 < len(terms(question)) < _FEW_TERMS and _REFERS.search(question)
    return f"{asked_before}\n{question}" if refers else question


def asks_about_all(question: str) -> bool:
    """Whether a question, by its words, is about all of a document, and not about a place of it."""
    question = plain(question)
    if named_places(question):
        return False
    asked = folded(question[:_READ])
    languages = [each for each in languages_of(question) if each in _PHRASES] or _PHRASES
    return _ABOUT_ALL_UNSPACED.search(question) is not None or any(
        _about_all(language).search(asked) for language in languages
    )


@cache  # compiled with the first question, as that takes longer than all imports
def _about_all(language: str) -> re.Pattern[str]:
    """The pattern of the phrases of a language."""
    joined = re.sub(r"\|\n\s+", "|", _PHRASES[language])
    for short, meant in (("*", r"\w*"), (" ...", r"\b.{0,40}\b"), ("#", _MEASURES)):
        joined = joined.replace(short, meant)
    each = "|".join(" ".join(phrase.split()) for phrase in re.split(r",\s+", joined))
    return re.compile(rf"\b(?:{each})(?!\w)")
