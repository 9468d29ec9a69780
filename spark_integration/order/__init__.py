"""Order: what the source said first leaves first, in total (`ordered`) or per key (`preserve_order`).

plan_text, plan_nodes and plan_verdict read the text of Spark's plans and import no Spark; arrow_spool needs only
Arrow. docs/order.md is for users.
"""
