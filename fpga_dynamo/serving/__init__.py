"""`fpga-dynamo serve`: exported models behind the Open Inference Protocol (KServe v2) over HTTP.

`server` answers requests, `protocol` reads and writes them, `pool` has the queue and the replicas, `replica` is the
process that runs models. Needs the extra `serve`.
"""
