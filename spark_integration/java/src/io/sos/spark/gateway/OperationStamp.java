package io.sos.spark.gateway;

/** What every change carries: which operation of which client it is, who claims to write there, the highest epoch seen. */
record OperationStamp(OperationId operation, PathClaim claim, long epochSeen) {
    void writeTo(MsgpackWriter out) {
        out.array(4).bytes(operation.client()).number(operation.sequence());
        if (claim == null) {
            out.nil();
        } else {
            out.array(2).text(claim.application()).number(claim.startTime());
        }
        out.number(epochSeen);
    }
}
