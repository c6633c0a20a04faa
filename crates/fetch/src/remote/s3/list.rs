//! What lies beneath `s3://bucket/prefix/`, as names.

use tidegate_transfer::error::Result;
use url::Url;

use crate::record::Names;
use crate::remote::Refusal;
use crate::remote::listing::{Listing, Page, Pages};
use crate::remote::patience::Patience;
use crate::remote::s3::calls::S3Client;
use crate::remote::s3::place::Object;

/// Lists what lies beneath the prefix `within.key`.
pub fn names(client: S3Client, within: Object, patience: Patience) -> Names {
    Listing::names(S3Pages { client, within }, patience)
}

/// The same with another number of keys a page, at most 1000.
pub fn names_by(client: S3Client, within: Object, patience: Patience, page: u32) -> Names {
    Listing::names_by(S3Pages { client, within }, patience, page)
}

struct S3Pages {
    client: S3Client,
    within: Object,
}

impl Pages for S3Pages {
    const SCHEME: &'static str = "s3";

    fn within(&self) -> &Object {
        &self.within
    }

    fn url(&self, object: &Object) -> Result<Url> {
        object.url()
    }

    fn page(&self, most: u32, from: Option<&str>) -> Result<Page, Refusal> {
        self.client.list(&self.within, most, from).map_err(Refusal::from)
    }
}
