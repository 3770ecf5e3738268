"""Values and the words they stand with; what is told of long texts, of long lists and in languages without lists of their own."""

from __future__ import annotations

import json

import pytest

from engine.types import VerifyMode
from engine.verify import parse, verify
from engine.verify.parse import MAX_ITEMS
from tests.engine.verify.pairs import load

STORY = (
    "我们公司是一家成立于上海的软件企业，主要为中小型制造业客户提供订单管理与仓储管理服务，目前团队规模不大，办公地点在浦东新区，平时大家都使用内部"
    "系统提交各类申请，系统里有审批流程，部门主管会先看，然后财务会复核，最后由行政归档保存，整个流程通常比较顺利，这次想咨询一下，"
)
TALE = (
    "I run a small bakery in a quiet town and sell bread, cake and coffee to people who walk past each day. The shop opens at dawn "
    "and closes at dusk, my aunt helps with the till, my cousin delivers orders by bicycle, the oven is old yet works well, the rent rose "
    "last winter, and customers mostly pay with coins. Now a short question: "
)
NUMBERS = [str(37 * place % 90 + 10) for place in range(100)]


def vetoes(a: str, b: str, mode: VerifyMode = VerifyMode.HARD) -> set[str]:
    return {verdict.rule for verdict in verify(parse(a), parse(b), mode=mode) if verdict.veto}


SWAPPED = [
    ("What is the price for 2 adults and 3 children?", "What is the price for 3 adults and 2 children?"),
    ("What is the price for 2 adults and 3 children?", "How much do 3 adults with 2 children pay?"),
    ("What is the price for 2 adults and 3 children?", "What is the price for 2 children and 3 adults?"),
    ("Set min replicas to 2 and max replicas to 10", "Set min replicas to 10 and max replicas to 2"),
    ("Can I arrive on Monday and leave on Friday?", "Can I arrive on Friday and leave on Monday?"),
    ("Is the villa free from May 5 to June 7?", "Is the villa free from May 7 to June 5?"),
    ("Give Ann the key and Ben the card", "Give Ben the key and Ann the card"),
    ("A box is 4 wide, 6 long and 8 deep. What is its base?", "A box is 8 wide, 4 long and 6 deep. What is its base?"),
    ("What comes next: 2, 4, 6, 8?", "What comes next: 4, 2, 8, 6?"),
    ("Ann and Ben paid 30 and 50 dollars. What does Ann owe?", "Ben and Ann paid 30 and 50 dollars. What does Ann owe?"),
    ("If x and y are 2 and 3, what is x?", "If y and x are 2 and 3, what is x?"),
    ("Does A cause B or does B cause A? I say A", "Does A cause B or does B cause A? I say B"),
    ("Can I take ibuprofen while on warfarin?", "Can I take warfarin while on ibuprofen?"),
    ("Open the door and close the window", "Close the door and open the window"),
    ("Swap `a.txt` with 'dog' and `b.txt` with 'cat'", "Swap `b.txt` with 'dog' and `a.txt` with 'cat'"),
    ("2个大人3个小孩门票多少钱？", "3个大人2个小孩门票多少钱？"),
    ("小明有3个苹果和5个梨，吃了2个苹果，还剩几个苹果？", "小明有5个苹果和3个梨，吃了2个苹果，还剩几个苹果？"),
    ("给张三转50元，给李四转70元", "给张三转70元，给李四转50元"),
    ("A中有而B中没有的行怎么查？", "B中有而A中没有的行怎么查？"),
]
KEPT = [
    ("What is the price for 2 adults and 3 children?", "What is the price for 3 children and 2 adults?"),
    ("Set min replicas to 2 and max replicas to 10", "Set max replicas to 10 and min replicas to 2"),
    ("Transfer $50 to Ann and $70 to Ben", "Transfer $70 to Ben and $50 to Ann"),
    ("Is the meeting in room 12 on floor 3?", "Is the meeting on floor 3 in room 12?"),
    ("Are you open on Saturday and Sunday?", "Are you open on Sunday and Saturday?"),
    ("Which is better, 5 GHz or 2.4 GHz?", "Which is better, 2.4 GHz or 5 GHz?"),
    ("How do I fly from Madrid to Lisbon?", "How do I fly to Lisbon from Madrid?"),
    ("Open the door and close the window", "Close the window and open the door"),
    ("Lend Tom my car and Kate my bike", "Lend Kate my bike and Tom my car"),
    ("12公斤6岁的孩子吃多少药？", "6岁12公斤的孩子吃多少药？"),
    ("把钥匙给小王，把门卡给小李", "把门卡给小李，把钥匙给小王"),
    ("图片怎么改成宽800高600？", "怎么把图片改成高600宽800？"),
]


@pytest.mark.parametrize(("a", "b"), SWAPPED)
def test_values_that_changed_places_serve_in_no_mode(a: str, b: str) -> None:
    for mode in VerifyMode:
        assert vetoes(a, b, mode) & {"order", "direction"}


@pytest.mark.parametrize(("a", "b"), KEPT)
def test_values_that_keep_their_words_may_stand_in_another_order(a: str, b: str) -> None:
    assert vetoes(a, b) == set()


@pytest.mark.parametrize("language", ["en", "zh"])
def test_held_out_pairs_of_another_order_stay_within_their_bounds(language: str) -> None:
    """Counts alone are told: who reads which pairs failed would write rules for them."""
    near = [pair for pair in load(language, held_out=True) if pair.kind == "order"]
    assert len(near) > 20
    assert sum(not vetoes(pair.a, pair.b, VerifyMode.SAFE) for pair in near) <= 1


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("Which users have not paid but logged in?", "Which users have paid but not logged in?"),
        ("哪些用户付了款但没登录？", "哪些用户没付款但登录了？"),
    ],
)
def test_another_word_that_is_denied_is_a_veto(a: str, b: str) -> None:
    assert "negation" in vetoes(a, b)


@pytest.mark.parametrize(
    ("start", "one", "other"),
    [
        (STORY, "我的猫呕吐了怎么办？", "我的狗呕吐了怎么办？"),
        (STORY, "怎么申请报销？", "怎么申请调岗？"),
        (STORY, "附近有什么好吃的面馆？", "打印机怎么连接？"),
        (TALE, "how do I bake a pie?", "how do I bake a bun?"),
        (TALE, "how do I clean a cat?", "where can I meet an accountant?"),
    ],
)
def test_a_question_after_a_long_story_is_read_to_its_end(start: str, one: str, other: str) -> None:
    assert len(start) > 120
    assert vetoes(start + one, start + other)
    assert vetoes(one + start, other + start)


@pytest.mark.parametrize(
    ("start", "one", "other"), [(STORY, "怎么打开通知？", "如何开启通知？"), (TALE, "how do I bake a pie?", "how can I bake a pie?")]
)
def test_another_wording_after_a_long_story_may_serve(start: str, one: str, other: str) -> None:
    assert vetoes(start + one, start + other) == set()


@pytest.mark.parametrize("place", [MAX_ITEMS - 2, MAX_ITEMS - 1, MAX_ITEMS, 80, 99])
def test_every_number_of_a_long_list_is_compared(place: int) -> None:
    changed = [*NUMBERS[:place], "9999", *NUMBERS[place + 1 :]]
    for mode in VerifyMode:
        assert "number" in vetoes(f"What is the sum of {', '.join(NUMBERS)}?", f"What is the sum of {', '.join(changed)}?", mode)


@pytest.mark.parametrize(
    ("field", "rule", "form"),
    [
        ("n", "number", "{} kg"),
        ("o", "number", "the {}th"),
        ("d", "date", "2{:03d}-01-01"),
        ("e", "entity", "`f{}`"),
        ("i", "sign", "{}"),
    ],
)
def test_a_list_that_is_cut_keeps_a_digest_of_the_rest(field: str, rule: str, form: str) -> None:
    many = range(100, 200)
    if field == "i":
        one, other = ("".join(f"{chr(0x1F400 + place)} x " for place in (*range(70), last)) for last in (80, 81))
    else:
        one, other = ("See " + " and ".join(form.format(item) for item in (*many, last)) for last in (300, 301))
    assert len(json.loads(parse(one))[field]) == MAX_ITEMS
    assert rule in vetoes(one, other)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("アカウントを有効にする方法を教えてください。", "アカウントを削除する方法を教えてください。"),
        ("サブスクリプションをキャンセルするには？", "サブスクリプションを更新するには？"),
        ("東京から大阪まで何時間ですか？", "大阪から東京まで何時間ですか？"),
        ("ยกเลิกบัญชีอย่างไร", "เปิดบัญชีอย่างไร"),
        ("ຍົກເລີກບັນຊີແນວໃດ", "ເປີດບັນຊີແນວໃດ"),
        ("តើខ្ញុំលុបគណនីដោយរបៀបណា", "តើខ្ញុំបើកគណនីដោយរបៀបណា"),
        ("အကောင့်ကိုဘယ်လိုဖျက်ရမလဲ", "အကောင့်ကိုဘယ်လိုဖွင့်ရမလဲ"),
        ("비밀번호를 어디에서 변경하나요?", "비밀번호를 언제 변경해야 하나요?"),
        ("서울에서 부산까지 얼마나 걸려요?", "부산에서 서울까지 얼마나 걸려요?"),
        ("Как удалить аккаунт и сохранить фото?", "Как сохранить аккаунт и удалить фото?"),
        ("كيف ألغي الاشتراك؟", "كيف أجدد الاشتراك؟"),
        ("Wie kann ich das Abo kündigen?", "Wie kann ich das Abo verlängern?"),
        ("¿Cómo activo la alarma de mi coche?", "¿Cómo quito la alarma de mi coche?"),
        ("Jak anulować subskrypcję online?", "Jak odnowić moją subskrypcję?"),
        ("Làm thế nào để hủy đăng ký?", "Làm thế nào để gia hạn đăng ký?"),
        ("सदस्यता कैसे रद्द करें?", "सदस्यता कैसे बढ़ाएं?"),
    ],
)
def test_in_a_language_without_lists_another_word_is_a_veto(a: str, b: str) -> None:
    assert vetoes(a, b)
    assert vetoes(a, f" {a.rstrip('?？。')} ") == set()
