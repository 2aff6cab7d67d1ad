//! Files inside a sandbox. Paths are bytes from its root, as the kernel there has them.

use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;
use pinfold_api::{FILE_MODE, FileEntry, FileListing, FileWritten};

use crate::client::{BYTES, Content, JSON, NOTHING, read, spelled, whole};
use crate::{Client, ClientError, Upload};

/// What a file holds, as it arrives.
pub struct FileContent {
    /// Its permissions. None: the server does not say.
    pub mode: Option<u32>,
    body: Incoming,
}

impl FileContent {
    /// None at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(ClientError::BrokeOff(error.into())),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) if !bytes.is_empty() => return Ok(Some(bytes.to_vec())),
                    Ok(_) | Err(_) => {}
                },
            }
        }
    }
}

impl Client {
    /// Of a link itself, not of what it leads to.
    pub async fn stat_file(&self, id: &str, path: &[u8]) -> Result<FileEntry, ClientError> {
        read(self.ask(Method::GET, &format!("{}?stat=1", url(id, path)), NOTHING).await?).await
    }

    /// No more than `most` entries.
    pub async fn list_files(&self, id: &str, path: &[u8], most: usize) -> Result<FileListing, ClientError> {
        read(self.ask(Method::GET, &format!("{}?list=1&most={most}", url(id, path)), NOTHING).await?).await
    }

    pub async fn read_file(&self, id: &str, path: &[u8]) -> Result<FileContent, ClientError> {
        let response = self.ask(Method::GET, &url(id, path), NOTHING).await?;
        let mode = response.headers().get(FILE_MODE).and_then(|mode| mode.to_str().ok());
        let mode = mode.and_then(|mode| u32::from_str_radix(mode, 8).ok());
        Ok(FileContent { mode, body: response.into_body() })
    }

    /// The file appears whole or not at all. Without a mode it keeps the one it had.
    pub async fn write_file(
        &self,
        id: &str,
        path: &[u8],
        mode: Option<u32>,
        content: Upload,
    ) -> Result<FileWritten, ClientError> {
        self.put(&format!("{}?kind=file{}", url(id, path), mode_of(mode)), content.into_content()).await
    }

    /// One that is there already is as good as one that is made.
    pub async fn make_directory(
        &self,
        id: &str,
        path: &[u8],
        mode: Option<u32>,
    ) -> Result<FileWritten, ClientError> {
        self.put(&format!("{}?kind=directory{}", url(id, path), mode_of(mode)), whole(Vec::new())).await
    }

    /// What is no directory makes way for it.
    pub async fn make_link(&self, id: &str, path: &[u8], target: &[u8]) -> Result<FileWritten, ClientError> {
        self.put(&format!("{}?kind=link", url(id, path)), whole(target.to_vec())).await
    }

    async fn put(&self, path: &str, content: Content) -> Result<FileWritten, ClientError> {
        read(self.carry(Method::PUT, path, content, BYTES, JSON).await?).await
    }
}

fn mode_of(mode: Option<u32>) -> String {
    mode.map(|mode| format!("&mode={mode:o}")).unwrap_or_default()
}

fn url(id: &str, path: &[u8]) -> String {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    // The root itself has no name that a route could take.
    let path = if path.is_empty() { b"." } else { path };
    format!("/api/sandbox/{id}/files/{}", spelled(path, b"-._~/"))
}

#[cfg(test)]
mod tests {
    use super::url;

    #[test]
    fn a_path_is_spelled_byte_by_byte() {
        assert_eq!(url("sbx_1", b"/a b/\xff?"), "/api/sandbox/sbx_1/files/a%20b/%FF%3F");
        assert_eq!(url("sbx_1", b"/"), "/api/sandbox/sbx_1/files/.");
    }
}
