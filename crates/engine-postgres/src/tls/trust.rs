//! Which server certificates are accepted, following `libpq`.

use super::{Mode, RootsFrom, TlsOptions, TlsSetupError, certificates, unusable};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use std::path::Path;

/// Which servers are accepted.
#[derive(Debug)]
pub(super) enum Trust {
    /// Encryption only: a passive eavesdropper learns nothing.
    Anybody,
    /// Any server whose certificate one of these authorities signed.
    Signed(Roots),
    /// The same, and the certificate must name the requested host.
    SignedForHost(Roots),
}

#[derive(Debug)]
pub(super) struct Roots {
    anchors: RootCertStore,
    /// As given. A server's own certificate may be among them.
    given: Vec<CertificateDer<'static>>,
}

impl Trust {
    pub(super) fn load(options: &TlsOptions) -> Result<Self, TlsSetupError> {
        match (options.mode, &options.roots) {
            (Mode::Disable | Mode::Prefer, Some(_)) => Err(TlsSetupError::Unverified),
            (Mode::Disable | Mode::Prefer | Mode::Require, None) => Ok(Self::Anybody),
            // If a root certificate file is given, `libpq` verifies.
            (Mode::Require | Mode::VerifyCa, Some(RootsFrom::File(file))) => {
                Roots::read(file).map(Self::Signed)
            }
            (Mode::Require, Some(RootsFrom::System))
            | (Mode::VerifyCa, Some(RootsFrom::System) | None) => {
                Err(TlsSetupError::EveryAuthority)
            }
            (Mode::VerifyFull, Some(RootsFrom::File(file))) => {
                Roots::read(file).map(Self::SignedForHost)
            }
            (Mode::VerifyFull, Some(RootsFrom::System) | None) => {
                Roots::of_the_system().map(Self::SignedForHost)
            }
        }
    }
}

impl Roots {
    fn read(file: &Path) -> Result<Self, TlsSetupError> {
        let given = certificates(file)?;
        let mut anchors = RootCertStore::empty();
        for certificate in &given {
            anchors.add(certificate.clone()).map_err(|error| unusable(file, &error))?;
        }
        Ok(Self { anchors, given })
    }

    fn of_the_system() -> Result<Self, TlsSetupError> {
        let found = rustls_native_certs::load_native_certs();
        let mut anchors = RootCertStore::empty();
        let (usable, _) = anchors.add_parsable_certificates(found.certs);
        if usable == 0 {
            let reason = found.errors.first().map(ToString::to_string);
            let reason = reason.unwrap_or_else(|| "there are none".to_owned());
            return Err(TlsSetupError::System { reason });
        }
        Ok(Self { anchors, given: Vec::new() })
    }
}

#[derive(Debug)]
pub(super) struct Verifier {
    trust: Trust,
    algorithms: WebPkiSupportedAlgorithms,
}

impl Verifier {
    pub(super) fn new(trust: Trust, provider: &CryptoProvider) -> Self {
        Self { trust, algorithms: provider.signature_verification_algorithms }
    }

    fn verify_chain(
        &self,
        roots: &Roots,
        server: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), Error> {
        let verified = verify_server_cert_signed_by_trust_anchor(
            &ParsedCertificate::try_from(server)?,
            &roots.anchors,
            intermediates,
            now,
            self.algorithms.all,
        );
        match verified {
            // A certificate made by `openssl req -x509` marks itself as an authority, which must not be the end
            // of a chain. If it was given as the file to trust, it is accepted. Its dates have already been
            // checked.
            Err(Error::InvalidCertificate(CertificateError::Other(_)))
                if roots.given.iter().any(|given| given.as_ref() == server.as_ref()) =>
            {
                Ok(())
            }
            verified => verified,
        }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        server: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        host: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match &self.trust {
            Trust::Anybody => {}
            Trust::Signed(roots) => self.verify_chain(roots, server, intermediates, now)?,
            Trust::SignedForHost(roots) => {
                self.verify_chain(roots, server, intermediates, now)?;
                verify_server_name(&ParsedCertificate::try_from(server)?, host)?;
            }
        }
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        server: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, server, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        server: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, server, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
