//! What the programs of GridFTP say of grid credentials takes thirty lines; this says it in one, and what to do.

use std::time::Duration;

use tidegate_control::units::duration_in_words;

/// What is wrong with a credential, if `said` is about one.
pub(crate) fn explained(said: &str) -> Option<String> {
    let after = |words: &str| said.find(words).map(|at| &said[at + words.len()..]);
    let name = |text: &str| {
        let end = text.find(['\n', ';', '\r']).unwrap_or(text.len());
        text[..end].trim().to_owned()
    };
    let expired = after("expired ").and_then(|rest| {
        let minutes: u64 = rest.split_once(" minutes ago")?.0.parse().ok()?;
        Some(duration_in_words(Duration::from_secs(minutes.saturating_mul(60))))
    });
    if said.contains("Server side credential failure") {
        let why = match expired {
            Some(ago) => format!("its host certificate expired {ago} ago"),
            None => "it finds no host certificate that it can use".to_owned(),
        };
        return Some(format!("the server cannot prove who it is: {why}; tell whoever runs it"));
    }
    if let Some(ago) = expired {
        let which = said.rsplit_once(" credential: ").map(|(_, rest)| name(rest)).unwrap_or_default();
        let kind = if said.contains("proxy credential: ") { "proxy" } else { "grid certificate" };
        let space = if which.is_empty() { "" } else { " " };
        let remedy = match kind {
            "proxy" => "make a new one (grid-proxy-init)",
            _ => "have a new one issued",
        };
        return Some(format!("the {kind}{space}{which} expired {ago} ago: {remedy}"));
    }
    if let Some(file) = after("Permissions on ").and_then(|rest| rest.split_once(" are too permissive")) {
        return Some(format!("the credential {0} can be read by others: chmod 600 {0}", name(file.0)));
    }
    if said.contains("Valid credentials could not be found") {
        let missing = said.rfind(" is not a valid file").and_then(|end| {
            let line = &said[..end];
            Some(name(&line[line.rfind("File does not exist: ")? + "File does not exist: ".len()..]))
        });
        let looked = missing.map(|file| format!(" (no {file})")).unwrap_or_default();
        return Some(format!(
            "there is no grid credential to log in with{looked}: make a proxy (grid-proxy-init), and name its file if it is \
             elsewhere"
        ));
    }
    if said.contains("local trusted CA certificate") {
        return Some(
            "the authority that certified the other side is not trusted here: put its certificate and signing policy \
             into /etc/grid-security/certificates, or where X509_CERT_DIR says"
                .to_owned(),
        );
    }
    if let Some(who) = after("Could not map ").map(name) {
        return Some(format!(
            "the server has no account for {who}: have it put into the server's grid-mapfile"
        ));
    }
    if let Some(names) = after("The name of the remote entity (") {
        let found = names.split_once("), and the expected name for the remote entity (");
        let (is, wanted) = found.and_then(|(is, rest)| Some((is, rest.split_once(") do not match")?.0)))?;
        return Some(format!(
            "the server is certified as {is}, not as {wanted}: write the address by the name in its certificate"
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_one_line_with_what_to_do() {
        let begin = "error: globus_ftp_control: gss_init_sec_context failed\nGSS failure: \nGSS Minor Status Error Chain:\n";
        for (said, wanted) in [
            (
                "globus_credential: Error with credential: The proxy credential: /tmp/x509up_u0\n      with subject: /O=T/CN=U/CN=1\n      expired 1440 minutes ago.\n",
                "the proxy /tmp/x509up_u0 expired 1 day ago: make a new one (grid-proxy-init)",
            ),
            (
                "globus_credential: Valid credentials could not be found in any of the possible locations.\nAttempt 1\nglobus_sysconfig: Could not find a valid certificate file\nAttempt 2\nglobus_sysconfig: File does not exist: /x/nope is not a valid file\nAttempt 3\n",
                "there is no grid credential to log in with (no /x/nope): make a proxy",
            ),
            (
                "globus_credential: Valid credentials could not be found\nglobus_sysconfig: File has bad permissions: Permissions on /x/p are too permissive. Maximum allowable permissions are 600\n",
                "the credential /x/p can be read by others: chmod 600 /x/p",
            ),
            (
                "530 530-globus_xio: Server side credential failure\n530-globus_credential: Error with credential: The host credential: /h.pem\n530-     has expired 90 minutes ago.\n",
                "the server cannot prove who it is: its host certificate expired 1 hour ago",
            ),
            (
                "530 530-globus_xio: Server side credential failure\n530-Valid credentials could not be found in any\n",
                "it finds no host certificate",
            ),
            (
                "globus_gsi_callback_module: Can't get the local trusted CA certificate: Untrusted self-signed certificate in chain with hash 72c434d2\n",
                "not trusted here",
            ),
            (
                "530 530-Login incorrect. : globus_gss_assist: Gridmap lookup failure: Could not map /O=Test/CN=User\n530-\n",
                "the server has no account for /O=Test/CN=User: have it put",
            ),
            (
                "globus_gsi_gssapi: Authorization denied: The name of the remote entity (/O=T/CN=a), and the expected name for the remote entity (/CN=b) do not match\n",
                "the server is certified as /O=T/CN=a, not as /CN=b",
            ),
        ] {
            // As it stands, and with its lines joined.
            for said in [format!("{begin}{said}"), said.replace('\n', "; ")] {
                let told = explained(&said).expect(&said);
                assert!(told.contains(wanted) && !told.contains('\n'), "{told}");
            }
        }
        for said in [
            "",
            "expired",
            "error: 500 No such file",
            "expired x minutes ago",
            "The name of the remote entity (x",
        ] {
            assert_eq!(explained(said), None, "{said}");
        }
    }
}
