package lab

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"

	ctclient "github.com/google/certificate-transparency-go/client"
	"github.com/google/certificate-transparency-go/jsonclient"
	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/sigstore/fulcio/pkg/ca"
	"github.com/sigstore/fulcio/pkg/ca/baseca"
	"github.com/sigstore/fulcio/pkg/config"
	fulciopb "github.com/sigstore/fulcio/pkg/generated/protobuf"
	legacypb "github.com/sigstore/fulcio/pkg/generated/protobuf/legacy"
	fulcioserver "github.com/sigstore/fulcio/pkg/server"
	common "github.com/sigstore/protobuf-specs/gen/pb-go/common/v1"
	"github.com/sigstore/sigstore/pkg/signature"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"
)

// fulcio is Fulcio's own server code (token check, proof of possession,
// precertificate, SCT, certificate) behind its own HTTP gateway. Ours is the
// certificate authority's key and name, and the absence of a gRPC port.
type fulcio struct {
	http.Handler
	chain     []*x509.Certificate // intermediate, root
	transport *http.Transport     // to the CT log
}

func newFulcio(ctx context.Context, st *state, urls URLs, log *ctLog, o Options) (*fulcio, error) {
	quietUpstream()
	f := &fulcio{transport: &http.Transport{}}
	authority, err := f.authority(st)
	if err != nil {
		return nil, err
	}
	cfg, err := fulcioConfig(urls.Issuer, o)
	if err != nil {
		return nil, err
	}
	algorithms, err := algorithms()
	if err != nil {
		return nil, err
	}
	ct, err := ctclient.New(urls.CT, &http.Client{Transport: f.transport}, jsonclient.Options{PublicKey: log.publicPEM()})
	if err != nil {
		return nil, fmt.Errorf("making Fulcio's CT client: %w", err)
	}
	mux := runtime.NewServeMux(runtime.WithMetadata(bearerToken), runtime.WithForwardResponseOption(answerAsTold))
	srv := fulcioserver.NewGRPCCAServer(ct, authority, algorithms, fulcioserver.NewIssuerPool(cfg))
	if err := fulciopb.RegisterCAHandlerServer(ctx, mux, srv); err != nil {
		return nil, fmt.Errorf("registering Fulcio: %w", err)
	}
	if err := legacypb.RegisterCAHandlerServer(ctx, mux, fulcioserver.NewLegacyGRPCCAServer(srv)); err != nil {
		return nil, fmt.Errorf("registering Fulcio's older API: %w", err)
	}
	f.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r.WithContext(config.With(r.Context(), cfg)))
	})
	return f, nil
}

func (f *fulcio) authority(st *state) (ca.CertificateAuthority, error) {
	key, err := st.key("fulcio", newECDSA)
	if err != nil {
		return nil, err
	}
	f.chain, err = st.chain("fulcio", func() ([]*x509.Certificate, error) {
		a, err := newAuthority("Fulcio", x509.ExtKeyUsageCodeSigning)
		if err != nil {
			return nil, err
		}
		if err := a.intermediate("Fulcio", key); err != nil {
			return nil, err
		}
		return a.chain, nil
	})
	if err != nil {
		return nil, err
	}
	if err := ca.VerifyCertChain(f.chain, key); err != nil {
		return nil, fmt.Errorf("checking Fulcio's chain: %w", err)
	}
	return &baseca.BaseCA{SignerWithChain: &ca.SignerCerts{Signer: key, Certs: f.chain}}, nil
}

func (f *fulcio) close() error {
	f.transport.CloseIdleConnections()
	return nil
}

// fulcioConfig trusts the issuer and others with e-mail identities, one with those
// of GitHub's workflows, and clusters with those of service accounts. Reading it fetches the issuers' discovery pages, so
// they must be up.
func fulcioConfig(issuer string, o Options) (*config.FulcioConfig, error) {
	trusted := map[string]any{issuer + workflowsAt: map[string]any{"IssuerURL": issuer + workflowsAt, "ClientID": "sigstore", "Type": "github-workflow"}}
	for _, email := range append([]string{issuer}, o.Issuers...) {
		trusted[email] = map[string]any{"IssuerURL": email, "ClientID": "sigstore", "Type": "email"}
	}
	for _, cluster := range o.Clusters {
		trusted[cluster] = map[string]any{"IssuerURL": cluster, "ClientID": "sigstore", "Type": "kubernetes"}
	}
	b, err := json.Marshal(map[string]any{"OIDCIssuers": trusted})
	if err != nil {
		return nil, fmt.Errorf("encoding Fulcio's configuration: %w", err)
	}
	cfg, err := config.Read(b)
	if err != nil {
		return nil, fmt.Errorf("reading Fulcio's configuration: %w", err)
	}
	return cfg, nil
}

// bearerToken hands the Authorization header to Fulcio as its gRPC gateway does.
func bearerToken(_ context.Context, r *http.Request) metadata.MD {
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return metadata.Pairs(fulcioserver.MetadataOIDCTokenKey, token)
	}
	return nil
}

// answerAsTold gives an answer of the older API, which cosign 2 speaks, the
// status that its handler asks for.
func answerAsTold(ctx context.Context, w http.ResponseWriter, _ proto.Message) error {
	told, _ := runtime.ServerMetadataFromContext(ctx)
	for _, text := range told.HeaderMD.Get(fulcioserver.HTTPResponseCodeMetadataKey) {
		status, err := strconv.Atoi(text)
		if err != nil {
			return err
		}
		w.WriteHeader(status)
	}
	return nil
}

// algorithms are those that the public instances accept.
func algorithms() (*signature.AlgorithmRegistryConfig, error) {
	reg, err := signature.NewAlgorithmRegistryConfig([]common.PublicKeyDetails{
		common.PublicKeyDetails_PKIX_ECDSA_P256_SHA_256,
		common.PublicKeyDetails_PKIX_ECDSA_P384_SHA_384,
		common.PublicKeyDetails_PKIX_ECDSA_P521_SHA_512,
		common.PublicKeyDetails_PKIX_ED25519,
		common.PublicKeyDetails_PKIX_ED25519_PH,
		common.PublicKeyDetails_PKIX_RSA_PKCS1V15_2048_SHA256,
		common.PublicKeyDetails_PKIX_RSA_PKCS1V15_3072_SHA256,
		common.PublicKeyDetails_PKIX_RSA_PKCS1V15_4096_SHA256,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the algorithms: %w", err)
	}
	return reg, nil
}
