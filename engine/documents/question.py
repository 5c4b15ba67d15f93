"""Reads the distinctive words of a question: all but the function words of its language.

Knows no document.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping

from engine.documents.words import LETTERS, WORD, folded, plain

_MOST_TERMS = 64
_FEW_TERMS = 3  # a question with fewer, which refers to the one before, is joined with it
_LONGEST_SUFFIX = 2  # letters after an apostrophe: we'll, what's
_LETTERS = re.compile(LETTERS)
_TERM = re.compile(rf"{WORD}+(?:['.\-/+@:]{WORD}+)*")
_REFERS = re.compile(
    r"^\W*(and|but|how about|or|what about)\b|"
    r"\b(he|her|him|his|it|its|same|she|that|their|them|there|these|they|this|those)\b",
    re.IGNORECASE,
)
# Without accents. The first seven lists end with words for the document and for tasks: these do not
# tell passages apart either.
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


def terms(question: str) -> tuple[str, ...]:
    """The words of a question that tell passages apart, without repetition, in order.

    Example: "What does clause 7 say about rent?" gives ("clause", "7", "rent").
    """
    stops = _function_words(question)
    distinct: dict[str, str] = {}
    for match in _TERM.finditer(plain(question)):
        word = match[0]
        before, _, behind = word.partition("'")
        if _stops(before, stops) and len(behind) > _LONGEST_SUFFIX:  # l'appartement
            word = before = behind
        if not _stops(before, stops):
            distinct.setdefault(word.casefold(), word)
    return tuple(distinct.values())[:_MOST_TERMS]


def _function_words(question: str) -> Collection[str]:
    """Return the function words of the languages that fit the question best."""
    asked = Counter(_LETTERS.findall(folded(plain(question))))
    counts = {
        language: sum(asked[word] for word in words) for language, words in _FUNCTION_WORDS.items()
    }
    most = max(counts.values())
    return frozenset().union(
        *(_FUNCTION_WORDS[name] for name in counts if counts[name] == most > 0)
    )


def _stops(word: str, stops: Collection[str]) -> bool:
    letter = len(word) == 1 and word.isascii() and word.isalpha()
    return letter or folded(word) in stops


def looked_for(question: str, asked_before: str) -> str:
    """The text whose words are looked for: the question, with the one before if it refers to it."""
    refers = 0 < len(terms(question)) < _FEW_TERMS and _REFERS.search(question)
    return f"{asked_before}\n{question}" if refers else question
