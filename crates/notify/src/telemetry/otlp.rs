//! OTLP resource, scope and attribute values.

use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, InstrumentationScope, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;

/// The instrumentation scope.
pub(super) const SCOPE: &str = "pinfold";
pub(super) const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(super) fn resource(service_name: &str, instance: &str) -> Resource {
    let attributes = vec![
        text("service.name", service_name),
        text("service.version", VERSION),
        text("service.instance.id", instance),
    ];
    Resource { attributes, ..Resource::default() }
}

pub(super) fn scope() -> InstrumentationScope {
    InstrumentationScope { name: SCOPE.into(), version: VERSION.into(), ..InstrumentationScope::default() }
}

pub(super) fn text(key: &str, value: &str) -> KeyValue {
    let value = Some(AnyValue { value: Some(Value::StringValue(value.into())) });
    KeyValue { key: key.into(), value, ..KeyValue::default() }
}
