"""Known answers per rule in both languages."""

from __future__ import annotations

import pytest

from engine.types import VerifyMode
from engine.verify import lexicon_en, lexicon_zh, parse, verify
from tests.engine.verify.pairs import load


def vetoes(a: str, b: str, mode: VerifyMode = VerifyMode.HARD) -> set[str]:
    return {verdict.rule for verdict in verify(parse(a), parse(b), mode=mode) if verdict.veto}


SAFE_CASES = [
    ("number", "Split a bill between 4 people", "Split a bill between 6 people"),
    ("number", "Give me three ideas", "Give me twelve ideas"),
    ("number", "Is 3.5 % normal?", "Is 5.3 % normal?"),
    ("number", "How do I install Python 3.9?", "How do I install Python 3.12?"),
    ("number", "月薪三千五百要交税吗？", "月薪八千五百要交税吗？"),
    ("number", "第二场比赛谁赢了？", "第三场比赛谁赢了？"),
    ("date", "Is the library open on Tuesday?", "Is the library open on Thursday?"),
    ("date", "Does it open at 9 am?", "Does it open at 9 pm?"),
    ("date", "Show the meetings of next week", "Show the meetings of last week"),
    ("date", "Is the call at 3 o'clock?", "Is the call at 16:00?"),
    ("date", "图书馆周二开门吗？", "图书馆周四开门吗？"),
    ("date", "商店上午九点开门吗？", "商店晚上九点开门吗？"),
    ("antonym", "How do I enable 2FA?", "How do I disable 2FA?"),
    ("antonym", "How do I turn on 2FA?", "How do I turn 2FA off?"),
    ("antonym", "How do I increase the limit?", "How do I decrease the limit?"),
    ("antonym", "Is the procedure reversible?", "Is the procedure irreversible?"),
    ("antonym", "Is this plant harmful?", "Is this plant harmless?"),
    ("antonym", "怎么开启两步验证？", "怎么关闭两步验证？"),
    ("antonym", "跑步前应该吃什么？", "跑步后应该吃什么？"),
    ("direction", "How do I fly from Madrid to Lisbon?", "How do I fly from Lisbon to Madrid?"),
    ("direction", "How long is the flight from Madrid to Lisbon?", "What is the flight time from Lisbon to Madrid?"),
    ("direction", "How can I convert a string to an integer?", "How do I convert an integer to a string?"),
    ("direction", "Is shipping to Canada available?", "Do you ship from Canada?"),
    ("direction", "Does a dog bite a man?", "Does a man bite a dog?"),
    ("direction", "Do you ship to Canada?", "Do you ship from Canada?"),
    ("direction", "从马德里飞里斯本要多久？", "从里斯本飞马德里要多久？"),
    ("direction", "金比铅重吗？", "铅比金重吗？"),
]
HARD_CASES = [
    ("negation", "Which foods contain gluten?", "Which foods don't contain gluten?"),
    ("negation", "哪些员工完成了培训？", "哪些员工没有完成培训？"),
    ("entity", "How do I restart nginx on Debian?", "How do I restart nginx on Fedora?"),
    ("entity", "What does `map` do?", "What does `filter` do?"),
    ("entity", "Open report_final.docx for me", "Open report_draft.docx for me"),
    ("entity", "北京今天天气怎么样？", "广州今天天气怎么样？"),
    ("entity", "《三国演义》讲了什么？", "《水浒传》讲了什么？"),
    ("unit", "How far is 5 km on foot?", "How far is 5 miles on foot?"),
    ("unit", "10公斤是多少磅？", "10克是多少磅？"),
    ("quantifier", "Must all students enrol?", "Must some students enrol?"),
    ("quantifier", "至少需要两位推荐人吗？", "最多需要两位推荐人吗？"),
    ("asked", "Where are audit logs stored?", "How long are audit logs stored?"),
    ("asked", "审计日志保存在哪里？", "审计日志保存多久？"),
    ("language", "How do I reset my password?", "怎么重置密码？"),
    ("negation", "怎么重置我的密码？", "怎么不重置我的密码？"),
    ("negation", "为什么收到邮件？", "为什么不再收到邮件？"),
    ("replaced", "How do I write a unit test with unittest?", "Show me how to write a unit test with pytest."),
    ("replaced", "What time complexity does quicksort have?", "What is the time complexity of heapsort?"),
    ("act", "怎么启动已经停止的容器？", "怎么停止正在运行的容器？"),
    ("act", "礼品卡怎么购买？", "如何使用礼品卡？"),
    ("act", "如何恢复已删除的项目？", "怎么删除已恢复的项目？"),
    ("act", "怎么归档已合并的分支？", "如何合并已归档的分支？"),
    ("act", "How do I restore a deleted project?", "How can I delete a restored project?"),
    ("act", "How do I stop a running container?", "What is the way to start a stopped container?"),
    ("act", "How can I redeem a gift card?", "How do I sell a gift card?"),
    ("replaced", "How do I reset my password please?", "How do I reset my username please?"),
    ("replaced", "In which sizes is the jacket available?", "Which colours does the jacket come in?"),
    ("replaced", "How do I repair a leaking tap?", "How do I repair a blocked drain?"),
    ("inserted", "How do I treat flu?", "How do I treat flu in babies?"),
    ("inserted", "How do I bake bread?", "How can I bake gluten bread?"),
    ("inserted", "咳嗽了怎么办？", "孕妇咳嗽了怎么办？"),
    ("inserted", "怎么学吉他？", "左撇子怎么学吉他？"),
    ("unlike", "How do I delete my account?", "How do I reset my password?"),
    ("unlike", "学生可以打折吗？", "怎么取消订单？"),
    ("quantifier", "Show the unread articles", "Show only the unread articles"),
    ("asked", "When was the bridge closed?", "Why was the bridge closed?"),
    ("asked", "How do I register a trademark?", "How long does it take to register a trademark?"),
    ("asked", "这座桥什么时候建的？", "这座桥为什么要建？"),
    ("negation", "怎么隐藏这条动态？", "怎么取消这条动态的隐藏？"),
]
SERVES = [
    ("How do I enable 2FA?", "How do I turn on 2FA?"),
    ("How do I disable 2FA?", "How do I turn off 2FA?"),
    ("Is the museum open on 1 May?", "Is the museum open on May 1st?"),
    ("Does the train leave at 5 pm?", "Does the train leave at 17:00?"),
    ("Give me three tips for sleep", "Give me 3 tips for sleep"),
    ("I have $1,000 to invest", "I have 1000 dollars to invest"),
    ("Does the shift end at 3 o'clock?", "Does the shift end at 15:00?"),
    ("Is lunch at noon?", "Is lunch at 12 pm?"),
    ("Is the ferry running today?", "Is the ferry running?"),
    ("三点开会吗？", "下午三点开会吗？"),
    ("What lasts 2 hours?", "What lasts 120 minutes?"),
    ("What is the difference between TCP and UDP?", "What is the difference between UDP and TCP?"),
    ("My printer won't print", "My printer does not print"),
    ("How do I install python on ubuntu?", "How do I install Python on Ubuntu?"),
    ("Why is my loop slow in Python?", "Why does my loop run slowly in Python?"),
    ("How do I withdraw an application?", "How does the withdrawal of an application work?"),
    ("Can I get a refund for a ticket?", "Are tickets refundable?"),
    ("What language is spoken in Peru?", "Which language do they speak in Peru?"),
    ("How do I get rid of moths?", "What gets rid of moths?"),
    ("How do I get a coffee stain out of a shirt?", "How do I remove a coffee stain from a shirt?"),
    ("What is the minimum wage in France?", "How high is the French minimum wage?"),
    ("How do I invert a dictionary in Python?", "How can a Python dict be inverted?"),
    ("How do I use the scanner?", "How do I use the scanner on my computer?"),
    ("收不收手续费？", "收手续费吗？"),
    ("北欧最大的湖是哪个？", "北欧最大的湖是什么？"),
    ("怎么开启两步验证？", "如何打开两步验证？"),
    ("礼品卡怎么使用？", "如何使用礼品卡？"),
    ("怎么恢复已删除的项目？", "已删除的项目如何恢复？"),
    ("五月一日开门吗？", "5月1日开门吗？"),
    ("去日本需要签证吗？", "去日本要不要签证？"),
    ("TCP和UDP有什么区别？", "UDP和TCP有什么区别？"),
    ("一千块钱怎么投资？", "1000元怎么投资？"),
]


@pytest.mark.parametrize(("rule", "a", "b"), SAFE_CASES)
def test_safe_rules_veto_in_every_mode(rule: str, a: str, b: str) -> None:
    for mode in VerifyMode:
        assert rule in vetoes(a, b, mode)


@pytest.mark.parametrize(("rule", "a", "b"), HARD_CASES)
def test_hard_rules_veto_in_hard_and_strict_and_speak_without_a_veto_in_safe(rule: str, a: str, b: str) -> None:
    assert rule in vetoes(a, b, VerifyMode.HARD)
    assert rule in vetoes(a, b, VerifyMode.STRICT)
    spoken = {verdict.rule: verdict.veto for verdict in verify(parse(a), parse(b), mode=VerifyMode.SAFE)}
    assert spoken[rule] is False


@pytest.mark.parametrize(("a", "b"), SERVES)
def test_a_paraphrase_passes_hard(a: str, b: str) -> None:
    assert vetoes(a, b) == set()


def test_strict_vetoes_an_added_and_a_substituted_word() -> None:
    assert "addition" in vetoes("How do I treat flu?", "How do I treat flu in babies?", VerifyMode.STRICT)
    assert "substitution" in vetoes("Which spices go into mild lamb soup?", "Do you add cumin and pepper to lamb soup?", VerifyMode.STRICT)
    assert vetoes("Which spices go into mild lamb soup?", "Do you add cumin and pepper to lamb soup?") == set()


def test_verdicts_are_symmetric() -> None:
    for language in ("en", "zh"):
        for pair in load(language):
            left, right = parse(pair.a), parse(pair.b)
            one, other = (verify(*sides, mode=VerifyMode.STRICT) for sides in ((left, right), (right, left)))
            assert [verdict.rule for verdict in one] == [verdict.rule for verdict in other]


def test_a_text_never_vetoes_itself() -> None:
    for language in ("en", "zh"):
        for pair in load(language):
            assert verify(parse(pair.a), parse(pair.a), mode=VerifyMode.STRICT) == ()


@pytest.mark.parametrize("broken", ["", "{", "[]", "null", '{"v":0}'])
def test_what_cannot_be_checked_must_not_serve(broken: str) -> None:
    for query, candidate in ((broken, parse("hello")), (parse("hello"), broken), (broken, broken)):
        assert [verdict.rule for verdict in verify(query, candidate, mode=VerifyMode.SAFE) if verdict.veto] == ["unparsed"]


def test_texts_longer_than_what_is_read_pass_only_when_they_are_the_same() -> None:
    start = "word " * 500
    assert vetoes(start + "a", start + "b", VerifyMode.SAFE) == {"cut"}
    assert vetoes(start + "a", start + "a", VerifyMode.STRICT) == set()


def test_the_lists_are_as_long_as_documented() -> None:
    assert lexicon_en.pair_count() >= 250
    assert lexicon_zh.pair_count() >= 150


@pytest.mark.parametrize("language", ["en", "zh"])
def test_held_out_near_misses_and_paraphrases_stay_within_their_bounds(language: str) -> None:
    """Bounds from docs/verification.md, with room: a rule that gets worse shows here."""
    pairs = load(language, held_out=True)
    wrong = sum(not pair.label and not vetoes(pair.a, pair.b) for pair in pairs)
    lost = sum(pair.label and bool(vetoes(pair.a, pair.b)) for pair in pairs)
    near = sum(not pair.label for pair in pairs)
    # Counts alone are told: who reads which pairs failed would write rules for them.
    assert wrong <= 0.05 * near
    assert lost <= 0.25 * (len(pairs) - near)
