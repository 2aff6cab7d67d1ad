//! Files inside a sandbox. Paths are absolute and are bytes, not UTF-8 text.

use http_body_util::BodyExt;
use hyper::Method;
use hyper::body::Incoming;
use pinfold_api::{FILE_MODE, FileEntry, FileListing, FileWritten};

use crate::client::{BYTES, Content, JSON, NO_BODY, full_content, percent_encode, read_json};
use crate::{Client, ClientError, Upload};

/// The content of a file, read in chunks.
pub struct FileContent {
    /// The file's mode. None: the server did not report it.
    pub mode: Option<u32>,
    body: Incoming,
}

impl FileContent {
    /// Returns the next chunk, or none at the end.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>, ClientError> {
        loop {
            match self.body.frame().await {
                None => return Ok(None),
                Some(Err(error)) => return Err(ClientError::Interrupted(error.into())),
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(bytes) if !bytes.is_empty() => return Ok(Some(bytes.to_vec())),
                    Ok(_) | Err(_) => {}
                },
            }
        }
    }
}

impl Client {
    /// Reads metadata without following a symbolic link.
    pub async fn stat_file(&self, id: &str, path: &[u8]) -> Result<FileEntry, ClientError> {
        read_json(self.request(Method::GET, &format!("{}?stat=1", url(id, path)), NO_BODY).await?).await
    }

    /// Lists at most `most` entries of a directory.
    pub async fn list_files(&self, id: &str, path: &[u8], most: usize) -> Result<FileListing, ClientError> {
        read_json(self.request(Method::GET, &format!("{}?list=1&most={most}", url(id, path)), NO_BODY).await?)
            .await
    }

    pub async fn read_file(&self, id: &str, path: &[u8]) -> Result<FileContent, ClientError> {
        let response = self.request(Method::GET, &url(id, path), NO_BODY).await?;
        let mode = response.headers().get(FILE_MODE).and_then(|mode| mode.to_str().ok());
        let mode = mode.and_then(|mode| u32::from_str_radix(mode, 8).ok());
        Ok(FileContent { mode, body: response.into_body() })
    }

    /// Writes a file atomically. Without `mode` an existing file keeps its mode.
    pub async fn write_file(
        &self,
        id: &str,
        path: &[u8],
        mode: Option<u32>,
        content: Upload,
    ) -> Result<FileWritten, ClientError> {
        self.put(&format!("{}?kind=file{}", url(id, path), mode_of(mode)), content.into_content()).await
    }

    /// Creates a directory. An existing directory is not an error.
    pub async fn make_directory(
        &self,
        id: &str,
        path: &[u8],
        mode: Option<u32>,
    ) -> Result<FileWritten, ClientError> {
        self.put(&format!("{}?kind=directory{}", url(id, path), mode_of(mode)), full_content(Vec::new()))
            .await
    }

    /// Creates a symbolic link, replacing anything but a directory.
    pub async fn make_link(&self, id: &str, path: &[u8], target: &[u8]) -> Result<FileWritten, ClientError> {
        self.put(&format!("{}?kind=link", url(id, path)), full_content(target.to_vec())).await
    }

    async fn put(&self, path: &str, content: Content) -> Result<FileWritten, ClientError> {
        read_json(self.request_with_content(Method::PUT, path, content, BYTES, JSON).await?).await
    }
}

fn mode_of(mode: Option<u32>) -> String {
    mode.map(|mode| format!("&mode={mode:o}")).unwrap_or_default()
}

fn url(id: &str, path: &[u8]) -> String {
    let path = path.strip_prefix(b"/").unwrap_or(path);
    // The route needs a non-empty path; `.` stands for the root.
    let path = if path.is_empty() { b"." } else { path };
    format!("/api/sandbox/{id}/files/{}", percent_encode(path, b"-._~/"))
}

#[cfg(test)]
mod tests {
    use super::url;

    #[test]
    fn path_bytes_are_percent_encoded() {
        assert_eq!(url("sbx_1", b"/a b/\xff?"), "/api/sandbox/sbx_1/files/a%20b/%FF%3F");
        assert_eq!(url("sbx_1", b"/"), "/api/sandbox/sbx_1/files/.");
    }
}
