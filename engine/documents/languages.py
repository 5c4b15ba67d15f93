"""Tells the language of a text by its function words, and finds the stems of words in it.

The stems are Snowball's. Knows no document.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from engine.documents.words import LETTERS, folded, plain

ENGLISH = "english"

_SAMPLED = 20_000  # characters
_SHARE = 0.15  # function words / words, in sentences of a language
_WORD = re.compile(LETTERS)
_BY_SCRIPT: Mapping[str, str] = {  # where most texts in the script are in that language
    "ARABIC": "arabic", "ARMENIAN": "armenian", "CYRILLIC": "russian", "DEVANAGARI": "hindi",
    "GREEK": "greek", "TAMIL": "tamil",
}  # fmt: skip
# Without accents. Words for the document and for what is to be done with it tell no passages apart
# either, and stand at the end of the first seven lists.
_FUNCTION_WORDS: Mapping[str, frozenset[str]] = {
    language: frozenset(words.split())
    for language, words in {
        "english": """
            a about above after again all also am an and any anything are as at be because been
            before being below between both but by can cannot could did do does doing done down
            during each else ever every few for from further get give given go had has have having
            he her here hers him his how i if in into is it its itself just let like many may me
            mean means might more most much must my no nor not now of off on once one only or other
            our out over own per please put say says she should show so some such tell than that the
            their them then there these they thing things this those through to too under until up
            us use using very want was we were what when where whether which while who whom whose
            why will with within without would write you your
            according answer attached compare describe document documents entire explain file files
            question summarise summarize summary whole""",
        "german": """
            aber alle allem allen aller als am an auch auf aus bei beim bin bis bitte da damit das
            dass dein dem den denn der des dich die dies diese diesem diesen dieser dieses dir du
            durch ein eine einem einen einer eines er es etwas euer fur gegen gelten gibt gilt hab
            habe haben hat hatte hier ich ihm ihn ihnen ihr ihre im in ins ist ja jede jeden jeder
            jedes kann kannst kein keine konnen man mehr mein mich mir mit muss mussen nach nicht
            noch nun nur ob oder ohne sehr sein seine sich sie sind so soll uber um und uns unser
            unter viel viele vom von vor wann war waren warum was welche welchem welchen welcher
            welches wenn wer werden wessen wie wieso will wird wo wofur wohin woher womit worin
            worum wurde wurden zu zum zur zwischen
            angehangt antwort datei dokument erklare fasse frage geht sag sagt steht text zeig
            zusammen zusammenfassung""",
        "spanish": """
            a al algo antes como con cual cuales cuando cuanta cuantas cuanto cuantos da dame de del
            desde dime donde el ella ellas ellos en entre era es esa ese eso esta estan estas este
            esto estos fue ha hace han hasta hay la las le les lo los mas me mi muy no nos o otra
            otro para pero por porque puede puedes que quien quienes se ser si sin sobre son su sus
            tambien tiene tienen todo tu un una uno unos y ya
            archivo describe dice documento explica pone pregunta resume resumen respuesta texto""",
        "french": """
            a ai ainsi au aussi aux avec c ce cela ces cet cette ci comme comment d dans de des
            donne du elle elles en est et etre eu fait faut il ils j je l la le les leur leurs lui
            m ma mais me meme mes moi mon n ne nos notre nous on ont ou par pas peut peux plus pour
            pourquoi qu quand que quel quelle quelles quels qui quoi s sa sans se ses si son sont
            sur ta te tes tu un une vos votre vous y
            decris dis dit document explique fichier question reponse resume texte""",
        "italian": """
            a ad ai al all alla alle anche c che chi ci come con cosa d da dal dalla dei del dell
            della delle di dimmi dove e ed era essere fa gli ha hanno i il in io l la le lei lo loro
            ma mi nei nel nella no non o ogni per perche piu puo quale quali quando quanta quante
            quanti quanto questa questo qui se si sono su sua sul sulla suo tra tu un una uno vi
            documento descrivi dice domanda file riassumi riassunto risposta spiega testo""",
        "portuguese": """
            a ao aos as com como da das de dela dele diga do dos e ela ele em entre era essa esse
            esta este eu foi ha isso isto ja la lhe mais mas me meu minha na nao nas no nos o onde
            os ou para pela pelo pode por porque qual quais quando quanta quantas quanto quantos que
            quem se sem ser seu sua sao sobre tem uma um voce
            arquivo descreva diz documento explique pergunta resposta resuma resumo texto""",
        "dutch": """
            aan af al als bij dan dat de der deze die dit door een en er haar had heb hebben heeft
            hem het hij hoe ik in is je kan kun maar me meer met mij mijn moet na naar niet nog nu
            of om onder ook op over te tot u uit van veel voor waar wanneer waarom was wat we welk
            welke wie wil worden wordt zal ze zich zij zijn zo zonder
            antwoord bestand beschrijf document gaat samen samenvatting staat tekst uitleg vat vraag
            zegt""",
        "swedish": "att av de den det en ett for fran har i inte jag med och om pa som till",
        "danish": "af at de den der det en er et for fra har i ikke jeg kan med og om pa som til",
        "norwegian": "av at de den det en er et for fra har i ikke jeg kan med og om pa som til",
        "finnish": "ei etta han ja jos joka kun kuin mika mutta myos ne on oli se tai tama voi",
        "polish": "a czy do i ile jak jest kto na nie o od oraz po przez sie to w z za ze",
        "czech": "a co do i jak je jako kdo na nebo o od po pro se si ta to v ve z za ze",
        "hungarian": "a az egy es ez hogy is ki meg mi mint nem van volt vagy",
        "romanian": "a al ale ca care ce cu de din este in la nu o pe pentru sa se si un",
        "turkish": "bir bu cok da de en gibi icin ile ki kim mi ne olan var ve veya",
    }.items()
}


def function_words(languages: Iterable[str]) -> frozenset[str]:
    """The words of these languages that tell no passages apart, without accents and capitals."""
    return frozenset().union(*(_FUNCTION_WORDS.get(each, ()) for each in languages))


def languages_of(question: str) -> tuple[str, ...]:
    """The languages of which a question has the most function words; () if it has none."""
    counts = _counts(_WORD.findall(folded(plain(question))))
    most = max(counts.values())
    return tuple(language for language, count in counts.items() if count == most > 0)


def language_of(text: str) -> str | None:
    """The language of the beginning of a text; None if it has hardly any sentences, such as a
    table."""
    words = _WORD.findall(folded(plain(text[:_SAMPLED])))
    scripts = Counter(unicodedata.name(word[0], "").partition(" ")[0] for word in words)
    for script, _ in scripts.most_common(1):
        if script in _BY_SCRIPT:
            return _BY_SCRIPT[script]
    counts = _counts(words)
    language = max(counts, key=lambda each: counts[each])
    return language if counts[language] > _SHARE * len(words) else None


def stemmed(text: str, language: str) -> str:
    """A text with the stem in place of each word."""
    return _WORD.sub(lambda match: _stem(match[0].lower(), language), text)


def _counts(words: Iterable[str]) -> dict[str, int]:
    found = Counter(words)
    return {
        language: sum(found[word] for word in functions)
        for language, functions in _FUNCTION_WORDS.items()
    }


@lru_cache(maxsize=1 << 17)
def _stem(word: str, language: str) -> str:
    stem: str = _stemmer(language).stemWord(word)
    return stem


@lru_cache
def _stemmer(language: str) -> Any:
    from snowballstemmer import stemmer  # takes longer to import than all of this package

    return stemmer(language)
