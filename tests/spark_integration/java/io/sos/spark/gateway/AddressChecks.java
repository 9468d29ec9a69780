package io.sos.spark.gateway;

import static io.sos.spark.checks.Checks.equal;
import static io.sos.spark.checks.Checks.is;
import static io.sos.spark.checks.Checks.thrown;
import static io.sos.spark.gateway.CheckedService.client;
import static io.sos.spark.gateway.CheckedService.content;
import static io.sos.spark.gateway.CheckedService.fresh;
import static io.sos.spark.gateway.CheckedService.read;
import static io.sos.spark.gateway.CheckedService.service;
import static io.sos.spark.gateway.CheckedService.settings;
import static io.sos.spark.gateway.ScriptedAnswers.frame;
import static io.sos.spark.gateway.ScriptedAnswers.refusal;

import io.sos.spark.checks.Checks;
import io.sos.spark.checks.FaultyProxy.Mode;
import io.sos.spark.checks.FaultyProxy;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.FutureTask;
import java.util.concurrent.locks.LockSupport;

/** Which of several services is asked, and what is made of those that refuse. */
final class AddressChecks {
    private AddressChecks() {}

    static void run(Checks checks) {
        checks.check("the next address when the first is dead, and it stays with the one that answers", () -> {
            try (FaultyProxy dead = new FaultyProxy(service())) {
                dead.mode = Mode.REFUSE;
                VolumeClient client = client(20, dead.address(), service());
                String path = fresh();
                client.write(path, content("x"), false, null);
                for (int i = 0; i < 20; i++) {
                    equal("x", read(client, path));
                }
                equal(1, dead.connections.get());
            }
        });
        checks.waits("a service that is gone without a sign is found out once, however many connections it had", () -> {
            try (FaultyProxy owner = new FaultyProxy(service())) {
                VolumeClient client = client(60, owner.address(), service());
                String path = fresh();
                client.write(path, content("x"), false, null);
                List<Thread> threads = new ArrayList<>();
                for (int i = 0; i < 6; i++) {
                    threads.add(new Thread(() -> {
                        for (int n = 0; n < 200 && owner.connections.get() < 4; n++) {
                            thrown(RefusedException.class, () -> read(client, fresh()));
                        }
                    }));
                }
                threads.forEach(Thread::start);
                for (Thread thread : threads) {
                    thread.join();
                }
                is(owner.connections.get() > 1);
                owner.frozen = true;
                equal("x", read(client, path));
                equal(1, owner.swallowed.get());
                equal("x", read(client, path));
                equal(1, owner.swallowed.get());
            }
        });
        checks.check("a service that cannot answer now is not the only one that is asked", () -> {
            for (int code : new int[] {30, 31, 32, 33}) {
                try (ScriptedService cutOff = new ScriptedService(refusal(code, "alone", "x", "y"))) {
                    VolumeClient client = client(60, cutOff.address(), service());
                    String path = fresh();
                    client.write(path, content("x"), false, null);
                    equal("x", read(client, path));
                    equal(1, cutOff.requests.get());
                }
            }
        });
        checks.check("NOT_OWNER leads to the owner, whether or not it is in the list", () -> {
            try (ScriptedService other = new ScriptedService(refusal(22, "not mine", "address", service()))) {
                VolumeClient client = client(20, other.address());
                String path = fresh();
                client.write(path, content("x"), false, null);
                equal("x", read(client, path));
                equal(1, other.requests.get());
            }
        });
        checks.waits("UNAVAILABLE is asked again, with the same operation", () -> {
            try (ScriptedService busy = new ScriptedService(refusal(31, "no quorum at the moment", "x", "y"))) {
                VolumeClient client = client(3, busy.address());
                ServiceUnavailableException e =
                        thrown(ServiceUnavailableException.class, () -> client.stat("x"));
                is(e.getMessage().contains("no quorum"));
                is(busy.requests.get() >= 3);
            }
        });
        checks.waits("OUTCOME_UNKNOWN until the deadline is an unknown outcome", () -> {
            try (ScriptedService lame = new ScriptedService(refusal(30, "the quorum was lost", "x", "y"))) {
                VolumeClient client = client(3, lame.address());
                thrown(OutcomeUnknownException.class, () -> client.write(fresh(), content("x"), true, null));
            }
        });
        checks.check("a service that may have made a change, and then turns the client away, leaves the outcome unknown", () -> {
            for (int code : new int[] {50, 51, 52, 53, 54, 57, 999}) {
                try (ScriptedService forgetful = new ScriptedService(refusal(30, "the quorum was lost", "x", "y"))) {
                    VolumeClient client = client(20, forgetful.address());
                    FutureTask<IOException> change = new FutureTask<>(() -> thrown(
                            IOException.class, () -> client.write(fresh(), content("x"), true, null)));
                    new Thread(change).start();
                    while (forgetful.answered.get() == 0) {
                        LockSupport.parkNanos(1_000_000);
                    }
                    forgetful.answer = refusal(code, "who are you?", "x", "y");
                    is(change.get() instanceof OutcomeUnknownException);
                    is(change.get().getMessage().contains("who are you?"));
                }
            }
        });
        checks.check("a code from the future is final", () -> {
            try (ScriptedService odd = new ScriptedService(refusal(999, "because", "x", "y"))) {
                VolumeClient client = client(20, odd.address());
                RefusedException e = thrown(RefusedException.class, () -> client.stat("x"));
                equal(ServiceCode.UNKNOWN, e.code());
                equal(1, odd.requests.get());
            }
        });
        checks.waits("an answer of an older epoch is thrown away", () -> {
            MsgpackWriter old = new MsgpackWriter();
            old.array(2).number(3).array(4).text("x").bool(false).number(1).number(1);
            try (ScriptedService stale = new ScriptedService(frame(0xa3, old))) {
                stale.epoch = 9;
                VolumeClient client = client(3, stale.address());
                IOException e = thrown(IOException.class, () -> client.stat("x"));
                is(e.getMessage().contains("epoch 3"));
            }
        });
        checks.check("an unknown volume is final when every service says so", () -> {
            VolumeClient client = VolumeClient.of("nobody", settings(20, service()));
            equal(ServiceCode.VOLUME_NOT_FOUND, thrown(RefusedException.class, () -> client.stat("x")).code());
        });
        checks.waits("something that is not a journal service is told from one", () -> {
            try (ScriptedService odd = new ScriptedService("HTTP/1.1 400 Bad Request\r\n\r\n".getBytes())) {
                odd.greets = false;
                VolumeClient client = client(3, odd.address());
                IOException e = thrown(IOException.class, () -> client.stat("x"));
                is(e.getMessage().contains("is this a journal service?"));
            }
        });
        checks.check("addresses are parsed or refused with a sentence", () -> {
            equal(List.of(new ServiceAddress("a", 1), new ServiceAddress("::1", 7500)),
                    ServiceAddress.parseList(" a:1, [::1]:7500 ,"));
            for (String wrong : List.of("a", "a:", ":1", "a:0", "a:65536", "a:x")) {
                thrown(IllegalArgumentException.class, () -> ServiceAddress.parse(wrong));
            }
        });
    }
}
