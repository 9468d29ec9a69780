package io.sos.spark.gateway;

import static io.sos.spark.checks.Checks.equal;
import static io.sos.spark.checks.Checks.is;
import static io.sos.spark.checks.Checks.thrown;
import static io.sos.spark.gateway.CheckedService.client;
import static io.sos.spark.gateway.CheckedService.content;
import static io.sos.spark.gateway.CheckedService.fresh;
import static io.sos.spark.gateway.CheckedService.service;
import static io.sos.spark.gateway.CheckedService.settings;
import static io.sos.spark.gateway.CheckedService.tokenSettings;
import static io.sos.spark.gateway.ScriptedAnswers.refusal;

import io.sos.spark.checks.Checks;
import java.util.List;

/** Claims, volumes and tokens: who may do what, and to whom a token is told. */
final class AccessChecks {
    private AccessChecks() {}

    static void run(Checks checks) {
        claims(checks);
        tokens(checks);
    }

    private static void claims(Checks checks) {
        checks.check("FENCED names both applications, and everything but the tree is free", () -> {
            VolumeClient client = client(20, service());
            PathClaim older = new PathClaim("app-older", 1000);
            PathClaim newer = new PathClaim("app-newer", 2000);
            String tree = fresh();
            client.claim(tree, older);
            client.write(tree + "/offsets/0", content("0"), false, older);
            client.claim(tree, newer);
            FencedException e = thrown(
                    FencedException.class, () -> client.write(tree + "/offsets/1", content("1"), false, older));
            is(e.getMessage().contains("app-older") && e.getMessage().contains("app-newer"));
            thrown(FencedException.class, () -> client.delete(tree, true, older));
            thrown(FencedException.class, () -> client.write(tree + "/x", content("1"), false, null));
            thrown(FencedException.class, () -> client.write(tree + "/x", content(new byte[2 << 20]), true, older));
            thrown(FencedException.class, () -> client.claim(tree, older));
            FileEntry begun = client.stat(tree + "/offsets/0");
            thrown(FencedException.class, () -> client.append(begun, new byte[1], 1, older));
            thrown(FencedException.class, () -> client.append(begun, new byte[1], 1, null));
            equal(2L, client.append(begun, new byte[1], 1, newer).size());
            client.write(tree + "/offsets/1", content("1"), false, newer);
            client.write(fresh(), content("1"), false, older);
        });
        checks.check("volumes are apart", () -> {
            String path = fresh();
            client(20, service()).write(path, content("x"), false, null);
            VolumeClient other = VolumeClient.of("other", settings(20, service()));
            thrown(RefusedException.class, () -> other.stat(path));
        });
        checks.check("settings do not show the token", () -> {
            String token = "ab".repeat(32);
            is(!tokenSettings(service(), token, false, false).toString().contains(token));
            thrown(IllegalArgumentException.class, () -> tokenSettings(service(), "short", false, false));
        });
    }

    private static void tokens(Checks checks) {
        String token = "ab".repeat(32);
        checks.check("a token does not go to another host in clear, unless that is wanted", () -> {
            for (String host : List.of("a.example:1", "10.0.0.1:1", "[fe80::1]:1", "127.a.example:1", "127.0.0.1:1,b:1")) {
                String said = thrown(IllegalArgumentException.class, () -> tokenSettings(host, token, false, false))
                        .getMessage();
                is(said.contains("fs.sos.insecure") && said.contains("fs.sos.tls") && !said.contains(token));
                tokenSettings(host, token, true, false);
                tokenSettings(host, token, false, true);
                tokenSettings(host, null, false, false);
            }
            tokenSettings("localhost:1,127.0.0.1:1,127.9.9.9:1,[::1]:1", token, false, false);
        });
        checks.waits("nor to whomever a service without TLS names as owner", () -> {
            try (ScriptedService other = new ScriptedService(refusal(22, "not mine", "address", "192.0.2.1:7420"))) {
                ServiceSettings settings = tokenSettings(other.address(), token, false, false);
                VolumeClient client = VolumeClient.of("payments", settings);
                String said = thrown(ServiceUnavailableException.class, () -> client.stat("x")).getMessage();
                is(said.contains("192.0.2.1:7420 is not asked"));
            }
        });
    }
}
