//! Every process inside, compared with exactly what it should be.

use std::sync::Arc;

use crate::outside::Outside;

pub(crate) async fn all(_outside: &Arc<Outside>) -> Vec<(String, Vec<String>)> {
    Vec::new()
}
