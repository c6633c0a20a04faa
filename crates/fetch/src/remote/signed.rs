//! What of a URL signs it: a query that is another one each time, although the file is the same.

use percent_encoding::percent_decode_str;
use url::{Position, Url};

/// Parameters that all begin so: AWS's Signature Version 4, Google's version 4, and Alibaba's.
const PREFIXES: [&str; 3] = ["x-amz-", "x-goog-", "x-oss-"];

/// Parameters of AWS's version 2, of Google's and Alibaba's older ones, of CloudFront and Akamai, and those that others
/// call so.
const NAMES: [&str; 26] = [
    "awsaccesskeyid",
    "googleaccessid",
    "ossaccesskeyid",
    "security-token",
    "signature",
    "expires",
    "policy",
    "key-pair-id",
    "hdnts",
    "hdnea",
    "__token__",
    "__gda__",
    "token",
    "access_token",
    "auth_token",
    "authtoken",
    "jwt",
    "sig",
    "sign",
    "hmac",
    "exp",
    "expire",
    "expires_at",
    "expires_in",
    "expiry",
    "expiration",
];

/// Those of a shared access signature of Azure's, which mean something else elsewhere: it has both `sig` and `sv`.
const AZURE: [&str; 23] = [
    "sv", "ss", "srt", "sr", "sp", "st", "se", "spr", "sip", "sig", "si", "sks", "skoid", "sktid", "skt",
    "ske", "skv", "sdd", "saoid", "suoid", "scid", "ses", "skdutid",
];

/// Which file `url` names, whoever signed it and when: without user, fragment, and what signs it.
pub(crate) fn identity(url: &Url) -> String {
    let host = &url[Position::BeforeHost..Position::AfterPath];
    let mut text = format!("{}://{host}", url.scheme());
    let parameters = parameters(url);
    let mut separator = '?';
    for (_, written) in parameters.iter().filter(|(name, _)| !signs(name, &parameters)) {
        text.push(separator);
        text.push_str(written);
        separator = '&';
    }
    text
}

/// Whether a parameter signs `url`.
pub(crate) fn is_signed(url: &Url) -> bool {
    let parameters = parameters(url);
    parameters.iter().any(|(name, _)| signs(name, &parameters))
}

/// The parameters of a query: their names, decoded and in lower case, and as they are written.
fn parameters(url: &Url) -> Vec<(String, &str)> {
    let written = url.query().unwrap_or_default().split('&').filter(|written| !written.is_empty());
    let named = |written: &'_ str| {
        let name = written.split('=').next().unwrap_or_default();
        percent_decode_str(name).decode_utf8_lossy().to_ascii_lowercase()
    };
    written.map(|written| (named(written), written)).collect()
}

fn signs(name: &str, all: &[(String, &str)]) -> bool {
    let has = |wanted: &str| all.iter().any(|(name, _)| name == wanted);
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
        || NAMES.contains(&name)
        || (AZURE.contains(&name) && has("sig") && has("sv"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_signed_anew_names_the_same_file_and_another_parameter_another() {
        let of = |text: &str| identity(&Url::parse(text).expect(text));
        let file = "https://h/b/f.bin";
        for signed in [
            "X-Amz-Algorithm=A&X-Amz-Credential=c%2F1&X-Amz-Date=1&X-Amz-Expires=9&X-Amz-Signature=1",
            "AWSAccessKeyId=a&Signature=s%3D&Expires=1",
            "X-Goog-Algorithm=G&X-Goog-Signature=12",
            "GoogleAccessId=a&Expires=1&Signature=s",
            "sv=2024-11-04&ss=b&srt=o&sp=r&se=2026-01-01&st=2025-01-01&spr=https&sig=a%2Bb%3D",
            "sp=r&sv=2024&sr=b&sig=x&skoid=1&sktid=2&skt=3&ske=4&sks=b&skv=2024",
            "Expires=1&Signature=s~&Key-Pair-Id=K",
            "Policy=ey__&Signature=s&Key-Pair-Id=K",
            "token=eyJ&expires=99",
            "X%2DAmz%2DSignature=1",
            "",
        ] {
            assert_eq!(of(&format!("{file}?{signed}")), file, "{signed}");
            assert_eq!(
                of(&format!("{file}?versionId=7&{signed}")),
                format!("{file}?versionId=7"),
                "{signed}"
            );
            let url = Url::parse(&format!("{file}?{signed}")).expect("a URL");
            assert_eq!(is_signed(&url), !signed.is_empty(), "{signed}");
        }
        assert_eq!(of("https://me:pw@h:8443/x?id=1&b#c"), "https://h:8443/x?id=1&b");
        // As others use them, they say which file.
        assert_eq!(of("https://h/get?sr=7&st=a"), "https://h/get?sr=7&st=a");
        assert_ne!(of("http://h/x"), of("https://h/x"));
    }
}
