package io.sos.spark.gateway;

import static io.sos.spark.checks.Checks.equal;
import static io.sos.spark.checks.Checks.is;
import static io.sos.spark.checks.Checks.thrown;
import static io.sos.spark.gateway.CheckedService.client;
import static io.sos.spark.gateway.CheckedService.content;
import static io.sos.spark.gateway.CheckedService.service;
import static io.sos.spark.gateway.ScriptedAnswers.frame;
import static io.sos.spark.gateway.ScriptedAnswers.notOwner;
import static io.sos.spark.gateway.ScriptedAnswers.status;

import io.sos.spark.checks.Checks;
import java.io.IOException;
import java.util.List;

/** Answers that are well-formed, and not what was asked for: from a service that is broken, or is none. */
final class AnswerChecks {
    private AnswerChecks() {}

    static void run(Checks checks) {
        checks.check("a STATUS of another path is not an answer", () -> {
            byte[] other = frame(0xa3, status(new MsgpackWriter().array(2).number(1), "other", 4));
            refusesAnswer(other, client -> thrown(RefusedException.class, () -> client.stat("asked")));
            refusesAnswer(other, client -> thrown(RefusedException.class, () -> client.read("asked", 0, 4, null)));
            refusesAnswer(other, client -> client.write("asked", content("four"), true, null));
        });
        checks.check("a write is not answered by a file of another size", () -> {
            byte[] shorter = frame(0xa3, status(new MsgpackWriter().array(2).number(1), "asked", 3));
            refusesAnswer(shorter, client -> client.write("asked", content("four"), true, null));
        });
        checks.check("a PAGE again and again ends the listing", () -> {
            MsgpackWriter page = new MsgpackWriter().array(3).number(1).array(2);
            status(page, "dir/a", 1);
            status(page, "dir/b", 1).bool(true);
            refusesAnswer(frame(0xa5, page), client -> thrown(RefusedException.class, () -> client.list("dir")));
        });
        checks.check("a PAGE of nothing, of strangers, or out of order", () -> {
            MsgpackWriter nothing = new MsgpackWriter().array(3).number(1).array(0).bool(true);
            refusesAnswer(frame(0xa5, nothing), client -> thrown(RefusedException.class, () -> client.list("dir")));
            MsgpackWriter stranger = new MsgpackWriter().array(3).number(1).array(1);
            status(stranger, "other/a", 1).bool(false);
            refusesAnswer(frame(0xa5, stranger), client -> thrown(RefusedException.class, () -> client.list("dir")));
            MsgpackWriter disorder = new MsgpackWriter().array(3).number(1).array(2);
            status(disorder, "dir/b", 1);
            status(disorder, "dir/a", 1).bool(false);
            refusesAnswer(frame(0xa5, disorder), client -> thrown(RefusedException.class, () -> client.list("dir")));
        });
        checks.check("pages without an end are refused before they fill the memory", () -> {
            Listing listing = new Listing("d", "");
            String padding = "x".repeat(1000);
            RefusedException refusal = thrown(RefusedException.class, () -> {
                for (int number = 1_000_000; ; number++) {
                    Answer.Page page =
                            new Answer.Page(1, List.of(new FileEntry("d/" + number + padding, false, 1, 1)), true);
                    listing.check(page);
                    listing.add(page);
                    is(number < 2_000_000);
                }
            });
            equal(ServiceCode.TOO_LARGE, refusal.code());
        });
        checks.check("an epoch that cannot be does not keep the true ones out", () -> {
            for (long epoch : new long[] {Long.MAX_VALUE, (1L << 40) + 1, seconds() + (2L << 20) + 100}) {
                MsgpackWriter poison = status(new MsgpackWriter().array(2).number(epoch), "x", 1);
                try (ScriptedService rogue = new ScriptedService(frame(0xa3, poison))) {
                    VolumeClient client = client(20, rogue.address(), service());
                    equal(ServiceCode.NOT_FOUND, thrown(RefusedException.class, () -> client.stat("x")).code());
                    is(rogue.requests.get() > 0);
                }
            }
        });
        checks.check("a running client follows an epoch that somebody took as far as the clock goes", () -> {
            long far = seconds() + (1L << 20);
            try (ScriptedService only = new ScriptedService(frame(0xa3, status(new MsgpackWriter().array(2).number(1), "x", 1)))) {
                VolumeClient client = client(8, only.address());
                equal(1L, client.stat("x").size());
                only.answer = frame(0xa3, status(new MsgpackWriter().array(2).number(far), "x", 2));
                equal(2L, client.stat("x").size());
            }
        });
        checks.waits("an epoch that was never an owner's is forgotten when the owner says so, and no other", () -> {
            MsgpackWriter poison = status(new MsgpackWriter().array(2).number(1000), "x", 1);
            try (ScriptedService only = new ScriptedService(frame(0xa3, poison))) {
                VolumeClient client = client(3, only.address());
                equal(1L, client.stat("x").size());
                only.greets = false; // an owner of an older epoch opens nothing for whoever has seen a newer one
                only.answer = notOwner(999, 1);
                thrown(ServiceUnavailableException.class, () -> client.stat("x"));
                only.greets = true;
                thrown(ServiceUnavailableException.class, () -> client.stat("x"));
                only.greets = false;
                only.answer = notOwner(1000, 1);
                thrown(ServiceUnavailableException.class, () -> client.stat("x"));
                only.greets = true;
                only.answer = frame(0xa3, status(new MsgpackWriter().array(2).number(1), "x", 2));
                equal(2L, client.stat("x").size());
            }
        });
        checks.check("an answer that is refused leaves no epoch behind", () -> {
            MsgpackWriter other = status(new MsgpackWriter().array(2).number(1000), "other", 1);
            try (ScriptedService rogue = new ScriptedService(frame(0xa3, other))) {
                VolumeClient client = client(20, rogue.address(), service());
                equal(ServiceCode.NOT_FOUND, thrown(RefusedException.class, () -> client.stat("x")).code());
            }
        });
    }

    private static long seconds() {
        return System.currentTimeMillis() / 1000;
    }

    private interface Asking {
        void ask(VolumeClient client) throws IOException;
    }

    /** The answer is thrown away, and the one of the next service is taken. */
    private static void refusesAnswer(byte[] answer, Asking asking) throws Exception {
        try (ScriptedService rogue = new ScriptedService(answer)) {
            VolumeClient client = client(20, rogue.address(), service());
            asking.ask(client);
            is(rogue.requests.get() > 0);
        }
    }
}
