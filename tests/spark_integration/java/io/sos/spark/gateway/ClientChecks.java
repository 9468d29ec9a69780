package io.sos.spark.gateway;

import io.sos.spark.checks.Checks;

/** What the client does when things go wrong. Argument: a service with the volumes payments and other. */
public final class ClientChecks {
    public static void main(String[] arguments) throws Exception {
        CheckedService.at(arguments[0]);
        Checks checks = new Checks();
        RetryChecks.run(checks);
        DeadlineChecks.run(checks);
        AddressChecks.run(checks);
        AccessChecks.run(checks);
        AnswerChecks.run(checks);
        SharingChecks.run(checks);
        checks.end();
    }
}
