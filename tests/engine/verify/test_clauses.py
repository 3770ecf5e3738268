"""Questions of one frame that want different answers, and the paraphrases beside them that must go on serving."""

from __future__ import annotations

import pytest

from engine.types import VerifyMode
from engine.verify import parse, verify


def vetoes(a: str, b: str) -> set[str]:
    return {verdict.rule for verdict in verify(parse(a), parse(b), mode=VerifyMode.HARD) if verdict.veto}


DIFFERENT = [
    ("number", "Is tylenol safe in the first trimester?", "Is tylenol safe in the third trimester?"),
    ("number", "Who won the first world war?", "Who won the second world war?"),
    ("number", "first amendment", "second amendment"),
    ("number", "What does the first amendment say?", "What does the second amendment say?"),
    ("number", "delete the first row", "delete the third row"),
    ("number", "World War I", "World War II"),
    ("number", "When did World War I end?", "When did World War II end?"),
    ("number", "world war i summary", "world war ii summary"),
    ("number", "type I diabetes", "type II diabetes"),
    ("number", "What are the symptoms of type I diabetes?", "What are the symptoms of type II diabetes?"),
    ("number", "When did Elizabeth I die?", "When did Elizabeth II die?"),
    ("number", "What is in chapter IV?", "What is in chapter VI?"),
    ("number", "What is in chapter V?", "What is in chapter X?"),
    ("number_one_sided", "Who won World War 2?", "Who won the first world war?"),
    ("antonym", "Is opened milk safe?", "Is unopened milk safe?"),
    ("antonym", "Does coffee cause headaches?", "Does coffee cure headaches?"),
    ("antonym", "Do vaccines cause autism?", "Do vaccines prevent autism?"),
    ("replaced", "Does coffee cause headaches?", "Does coffee affect headaches?"),
    ("replaced", "What causes hiccups?", "What is the reason for sneezing?"),
    ("antonym", "Is the item in stock?", "Is the item out of stock?"),
    ("antonym", "Is the item in stock?", "Is the item sold out?"),
    ("replaced", "What is the email of the HR department?", "What is the phone number of the HR department?"),
    ("replaced", "support by phone", "support by email"),
    ("replaced", "How do I contact support by phone?", "How do I contact support by email?"),
    ("entity", "What is 12 + 4?", "What is 12 / 4?"),
    ("entity", "What is 12 - 4?", "What is 12 + 4?"),
    ("entity", "What is 12 plus 4?", "What is 12 times 4?"),
    ("entity", "12+4等于多少", "12*4等于多少"),
    ("entity", "12加4等于多少", "12减4等于多少"),
    ("direction", "Can my landlord sue me?", "Can I sue my landlord?"),
    ("direction", "Which companies did Google acquire?", "Which companies acquired Google?"),
    ("direction", "Who did Brutus kill?", "Who killed Brutus?"),
    ("quantifier", "Should I eat before running?", "Should I eat while running?"),
    ("quantifier", "Should I eat after running?", "Should I eat during running?"),
    ("quantifier", "Must I file taxes?", "Can I file taxes?"),
    ("quantifier", "Do I have to file taxes?", "May I file taxes?"),
    ("quantifier", "Do I need to tip?", "Can I tip?"),
    ("replaced", "喝咖啡会影响睡眠吗？", "喝茶会影响睡眠吗？"),
    ("replaced", "狗能吃葡萄吗？", "狗能吃鱼吗？"),
    ("replaced", "狗能吃巧克力吗？", "狗能吃鱼吗？"),
    ("replaced", "喝牛奶好吗？", "喝水好吗？"),
    ("replaced", "孕妇可以吃螃蟹吗？", "孕妇可以吃虾吗？"),
]
SAME = [
    ("Who won World War II?", "Who won World War 2?"),
    ("Who won World War II?", "Who won the second world war?"),
    ("Who won World War 2?", "Who won the second world war?"),
    ("Who won the 1st world war?", "Who won the first world war?"),
    ("Is type II diabetes curable?", "Is type 2 diabetes curable?"),
    ("Which type I should choose?", "Which type should I choose?"),
    ("Where do I start first?", "Where should I start?"),
    ("Is the item in stock?", "Is the item available?"),
    ("Is the item out of stock?", "Is the item sold out?"),
    ("How do I call support?", "How can I contact support by phone?"),
    ("How do I contact support?", "How do I reach support by email?"),
    ("What causes muscle cramps?", "Why do muscles cramp?"),
    ("What causes rust?", "How does rust form?"),
    ("What are the causes of migraine?", "What triggers migraine?"),
    ("What causes my app to stop?", "Why does my app stop?"),
    ("What is 12 + 4?", "What is 12 plus 4?"),
    ("12+4等于多少", "12加4等于多少"),
    ("喝茶会影响睡眠吗？", "喝茶影响睡眠吗？"),
    ("怎么修车？", "怎么修汽车？"),
    ("What happened on 2024-05-01?", "What happened on 2024/05/01?"),
    ("Can I book a table?", "Can you book me a table?"),
    ("What did Google acquire?", "What was acquired by Google?"),
    ("Should I eat while pregnant?", "Should I eat during pregnancy?"),
    ("What should I do before running?", "What should I do prior to running?"),
    ("Do I have to file taxes?", "Must I file taxes?"),
    ("Can I file taxes?", "May I file taxes?"),
    ("What do I need to do to get a visa?", "What can I do to get a visa?"),
]


@pytest.mark.parametrize(("rule", "a", "b"), DIFFERENT)
def test_a_question_of_the_same_frame_that_wants_another_answer_is_vetoed(rule: str, a: str, b: str) -> None:
    assert rule in vetoes(a, b)
    assert rule in vetoes(b, a)


@pytest.mark.parametrize(("a", "b"), SAME)
def test_the_same_question_in_another_wording_passes(a: str, b: str) -> None:
    assert vetoes(a, b) == set()
