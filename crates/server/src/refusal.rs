//! The reasons for refusing credentials, for metrics: a closed set, one value per kind of
//! explanation (`auth/explain.rs`).

use lazuli_wire::sas::SasError;

lazuli_meter::label! {
    /// Why a credential was refused. The values from `SasMalformed` on are for shared access
    /// signatures.
    pub(crate) enum Refusal {
        NoCredential => "no_credential",
        TwoCredentials => "two_credentials",
        MalformedHeader => "malformed_header",
        /// The header and the URL name different accounts.
        OtherAccount => "other_account",
        Date => "date",
        Signature => "signature",
        /// Not accepted over plain HTTP, or in this version.
        BearerNotTaken => "bearer_not_taken",
        NoIssuer => "no_issuer",
        BearerToken => "bearer_token",
        Role => "role",
        SasMalformed => "sas_malformed",
        SasVersion => "sas_version",
        SasSignature => "sas_signature",
        SasUnknownPolicy => "sas_unknown_policy",
        SasGivenTwice => "sas_given_twice",
        SasNotStarted => "sas_not_started",
        SasExpired => "sas_expired",
        SasProtocol => "sas_protocol",
        SasSourceIp => "sas_source_ip",
        SasService => "sas_service",
        SasResourceType => "sas_resource_type",
        SasPermission => "sas_permission",
        SasResource => "sas_resource",
        SasKeyRange => "sas_key_range",
    }
}

impl From<SasError> for Refusal {
    fn from(error: SasError) -> Self {
        match error {
            SasError::Version => Self::SasVersion,
            SasError::Signature => Self::SasSignature,
            SasError::UnknownPolicy => Self::SasUnknownPolicy,
            SasError::GivenTwice(_) => Self::SasGivenTwice,
            SasError::NotStarted(_) => Self::SasNotStarted,
            SasError::Expired(_) => Self::SasExpired,
            SasError::Protocol => Self::SasProtocol,
            SasError::SourceIp => Self::SasSourceIp,
            SasError::Service => Self::SasService,
            SasError::ResourceType => Self::SasResourceType,
            SasError::Permission => Self::SasPermission,
            SasError::Resource => Self::SasResource,
            SasError::KeyRange => Self::SasKeyRange,
            // A parameter is missing, malformed or given twice.
            _ => Self::SasMalformed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lazuli_meter::Label;

    /// O-3.3.
    #[test]
    fn there_are_at_most_24_reasons() {
        assert!(Refusal::ALL.len() <= 24, "{}", Refusal::ALL.len());
    }
}
