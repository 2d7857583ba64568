"""How operations put amounts, times and reasons into words, in the catalogue's language (English or Chinese).

These texts are results: a host may say them as they are. What a harness says around them is the harness's.
"""

from __future__ import annotations

from datetime import datetime

from livery.shop.catalogue import Catalogue, Coupon, Promotion, PromotionKind, Status
from livery.shop.money import format_money
from livery.shop.pricing import Refusal, Why
from livery.types import JSON

_STATUS = {
    Status.ON_SALE: ("on sale", "在售"),
    Status.SOLD_OUT: ("sold out", "已售罄"),
    Status.DISCONTINUED: ("no longer sold", "已下架"),
    Status.UPCOMING: ("not on sale yet", "未开售"),
}


def pick(catalogue: Catalogue, english: str, chinese: str) -> str:
    return chinese if catalogue.chinese else english


def status_text(catalogue: Catalogue, status: Status) -> str:
    return pick(catalogue, *_STATUS[status])


def percent(catalogue: Catalogue, percent_off: int) -> str:
    """ "20% off"; in Chinese by what is paid: 20 off is "8折", 12 off "8.8折", all of it "免单"."""
    if not catalogue.chinese:
        return f"{percent_off}% off"
    tens, ones = divmod(100 - percent_off, 10)
    if percent_off == 100:
        return "免单"
    return f"{tens}.{ones}折" if ones else f"{tens}折"


def time_value(catalogue: Catalogue, at: datetime, now: datetime) -> dict[str, JSON]:
    """``{"at": ISO 8601 in the store's zone, "text": "1 Mar 20:00"}``; the year only where it is another."""
    local = at.astimezone(catalogue.zone)
    other_year = local.year != now.astimezone(catalogue.zone).year
    if catalogue.chinese:
        text = f"{local.month}月{local.day}日{local:%H:%M}"
        text = f"{local.year}年{text}" if other_year else text
    else:
        text = f"{local.day} {_MONTHS[local.month - 1]}{f' {local.year}' if other_year else ''} {local:%H:%M}"
    return {"at": local.isoformat(timespec="seconds"), "text": text}


_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


def promotion_terms(catalogue: Catalogue, promotion: Promotion) -> str:
    """What the promotion gives: "every 2nd 50% off", "满300减40"."""

    def money(amount: int | None) -> str:
        return format_money(amount or 0, catalogue.currency)

    zh = catalogue.chinese
    off = percent(catalogue, promotion.percent_off or 0)
    match promotion.kind:
        case PromotionKind.PERCENT_OFF:
            return off
        case PromotionKind.AMOUNT_OFF:
            return f"每件减{money(promotion.amount_off)}" if zh else f"{money(promotion.amount_off)} off each"
        case PromotionKind.FIXED_PRICE:
            left = promotion.limit
            if zh:
                return f"限时价{money(promotion.price)}" + (f"，限{left}件" if left else "")
            return f"flash price {money(promotion.price)}" + (f", {left} left" if left else "")
        case PromotionKind.NTH_ITEM:
            nth = promotion.nth or 0
            return f"第{nth}件{off}" if zh else f"every {nth}{_ordinal(nth)} {off}"
        case PromotionKind.BUY_X_GET_Y:
            buy, get = promotion.buy, promotion.get
            return f"买{buy}送{get}" if zh else f"buy {buy} get {get} free"
        case PromotionKind.SPEND_THRESHOLD:
            each = ("每满" if promotion.every else "满") if zh else ("every " if promotion.every else "")
            tiers = [
                f"{each}{money(t.threshold)}减{money(t.amount_off)}"
                if zh
                else f"{money(t.amount_off)} off {each}{money(t.threshold)}"
                for t in promotion.tiers
            ]
            return ("，" if zh else ", ").join(tiers)
        case PromotionKind.MEMBER_PRICE:
            terms = money(promotion.price) if promotion.price is not None else off
            return f"会员价{terms}" if zh else f"member price {terms}"


def coupon_terms(catalogue: Catalogue, coupon: Coupon) -> str:
    """What the coupon gives: "$5 off from $40", "满200减30"."""
    zh, currency = catalogue.chinese, catalogue.currency
    threshold, amount = (
        format_money(coupon.threshold, currency),
        format_money(coupon.amount_off or 0, currency),
    )
    if coupon.amount_off is not None:
        gives = f"减{amount}" if zh else f"{amount} off"
    else:
        gives = percent(catalogue, coupon.percent_off or 0)
    if coupon.threshold:
        takes = "享" if coupon.percent_off is not None else ""  # a digit would run into the threshold's
        gives = f"满{threshold}{takes}{gives}" if zh else f"{gives} from {threshold}"
    elif zh and coupon.amount_off is not None:
        gives = f"无门槛{gives}"
    if coupon.cap is not None:
        cap = format_money(coupon.cap, currency)
        gives += f"，最多减{cap}" if zh else f", at most {cap}"
    return gives


def refusal_text(catalogue: Catalogue, refusal: Refusal, now: datetime) -> str:
    """Why a coupon or promotion is not part of a price."""
    zh, part = catalogue.chinese, refusal.part
    match refusal.why:
        case Why.UNKNOWN:
            return "没有这张券" if zh else "there is no such coupon"
        case Why.NOT_YET:
            start = str(time_value(catalogue, part.starts_at, now)["text"]) if part and part.starts_at else ""
            return f"{start}开始" if zh else f"starts {start}"
        case Why.OVER:
            end = str(time_value(catalogue, part.ends_at, now)["text"]) if part and part.ends_at else ""
            return f"已于{end}结束" if zh else f"ended {end}"
        case Why.OTHER_PRODUCT:
            return "不适用于本商品" if zh else "not for this product"
        case Why.BELOW_THRESHOLD:
            if isinstance(part, Promotion) or part is None:
                return "件数或金额未达到" if zh else "not enough bought"
            missing = format_money(refusal.short_by, catalogue.currency)
            return f"还差{missing}" if zh else f"needs {missing} more"
        case Why.MEMBERS_ONLY:
            return "仅限会员" if zh else "members only"
        case Why.NOT_COMBINABLE:
            return "不能与已用优惠叠加" if zh else "cannot be added to what is used"
        case Why.NO_GAIN:
            return "用了也不会更便宜" if zh else "would not lower the price"


def _ordinal(number: int) -> str:
    if number % 100 in (11, 12, 13):
        return "th"
    return {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th")
