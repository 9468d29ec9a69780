package io.sos.spark.gateway;

/** Names one change, however often it is sent: 16 random bytes, and a number that counts the changes under them from 1. */
record OperationId(byte[] client, long sequence) {
    OperationId next() {
        return new OperationId(client, sequence + 1);
    }
}
