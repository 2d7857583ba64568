"""售罄、下架、未开售的商品不催单。

这次请求查到的商品买不了,回复却在催下单,就退回重写。
"""

import re

from livery.harness.hooks.decisions import Allow, Retry

CHECKPOINT = "reply"
MODE = "check"
ON_FAILURE = "allow"
TIMEOUT_S = 0.2

URGES = re.compile("赶紧拍|快拍|抓紧下单|赶快下单|直接拍|马上下单|加购物车|冲一波")
GONE = {"已售罄", "已下架", "未开售"}


def check(value, context):
    if not URGES.search(value):
        return Allow()
    for result in reversed(context.results):
        found = result.value if result.ok and isinstance(result.value, dict) else {}
        if found.get("status") in GONE:
            return Retry(f"{found.get('name', '这款')}{found['status']},要先说明,不要催下单。")
    return Allow()
