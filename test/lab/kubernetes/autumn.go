package kubernetes

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sigstore/sigstore-go/pkg/sign"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/encoding/protojson"

	"github.com/waybill-release/waybill/pkg/backend/registry"
	"github.com/waybill-release/waybill/pkg/judge/k8slayout"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/digest"
)

// Summaries signs the verification summaries of promoted images.
const Summaries = "promoter-summaries@k8s-releng-prod.iam.gserviceaccount.com"

// The predicate types of what Kubernetes signs since autumn 2026.
const (
	KindProvenance = "https://slsa.dev/provenance/v1"
	KindSummary    = "https://slsa.dev/verification_summary/v1"
	KindScan       = "https://in-toto.io/attestation/vulns/v0.2"
	KindBuildEnv   = "https://in-toto.io/attestation/build-env/v1"
	KindVEX        = "https://openvex.dev/ns"
	KindPromotion  = "https://k8s.io/promo-tools/promotion/v1"
)

// PromoterPolicy is the policy that the summaries name: the promoter's manifest.
const PromoterPolicy = "git+https://github.com/kubernetes/k8s.io#registry.k8s.io/manifests/k8s-staging-kubernetes/promoter-manifest.yaml"

// Referring is a signed statement that refers to a manifest, in a bundle.
type Referring struct {
	Kind   string
	Bundle []byte
}

// Subject is what a statement is about.
type Subject struct {
	Name   string            `json:"name"`
	Digest map[string]string `json:"digest"`
}

// Statement signs a statement as an account, as a bundle with an entry in the
// Rekor v1 log.
func (s Signer) Statement(as, kind string, predicate any, about ...Subject) (Referring, error) {
	payload := encodeJSON(map[string]any{"_type": "https://in-toto.io/Statement/v1", "subject": about, "predicateType": kind, "predicate": predicate})
	b, err := s.bundle(as, &sign.DSSEData{Data: payload, PayloadType: "application/vnd.in-toto+json"})
	if err != nil {
		return Referring{}, fmt.Errorf("signing as %s: %w", as, err)
	}
	raw, err := protojson.Marshal(b)
	return Referring{kind, raw}, err
}

// Summary is what the promoter says about a manifest of a repository.
type Summary struct {
	Repository string
	Digest     digest.Digest
	Verifier   string
	Policy     string
	Failed     bool
	Levels     []string // beside FAILED
	At         time.Time
}

// NewSummary is the summary of a promoted manifest that passed.
func NewSummary(repository string, of digest.Digest) Summary {
	return Summary{
		Repository: repository, Digest: of, Verifier: "https://k8s.io/promo-tools/verifier/v1", Policy: PromoterPolicy,
		Levels: []string{"SLSA_BUILD_LEVEL_2", "K8S_PROMOTION_MANIFEST_REVIEWED"}, At: time.Now().Add(-time.Minute),
	}
}

// Sign signs the summary as an account.
func (v Summary) Sign(s Signer, as string) (Referring, error) {
	name, result, levels := "registry.k8s.io/"+v.Repository, "PASSED", v.Levels
	if v.Failed {
		result, levels = "FAILED", []string{"FAILED"}
	}
	return s.Statement(as, KindSummary, map[string]any{
		"verifier":     map[string]any{"id": v.Verifier, "version": map[string]string{"kpromo": "v4.7.1"}},
		"timeVerified": v.At.UTC().Format(time.RFC3339Nano), "resourceUri": name + "@" + v.Digest.String(),
		"policy":             map[string]any{"uri": v.Policy, "digest": map[string]string{"gitCommit": strings.Repeat("b", 40)}},
		"verificationResult": result, "verifiedLevels": levels, "slsaVersion": "1.0",
	}, Subject{name, map[string]string{"sha256": v.Digest.Hex()}})
}

// Provenance is the predicate of krel's build type.
func (r *Release) Provenance() map[string]any {
	commit := strings.Repeat("5", 40) // of no repository
	return map[string]any{
		"buildDefinition": map[string]any{
			"buildType": "https://git.k8s.io/release/docs/krel/buildtypes/v1",
			"externalParameters": map[string]any{
				"releaseType": "official", "releaseBranch": fmt.Sprintf("release-%d.%d", r.Version.Major(), r.Version.Minor()), "nomock": true,
				"buildVersion": r.buildVersion(commit), "entryPoint": "https://git.k8s.io/release/gcb/stage/cloudbuild.yaml",
			},
			"internalParameters": map[string]any{},
			"resolvedDependencies": []any{map[string]any{
				"uri": "git+https://github.com/kubernetes/kubernetes", "digest": map[string]string{"gitCommit": commit, "sha1": commit},
			}},
		},
		"runDetails": map[string]any{
			"builder":  map[string]any{"id": "https://git.k8s.io/release/docs/krel"},
			"metadata": map[string]any{"invocationId": "synthetic", "startedOn": written, "finishedOn": written.Add(time.Hour)},
		},
	}
}

// Subjects are the files that provenance names, below the bucket.
func (r *Release) Subjects() (all []Subject) {
	for _, name := range r.Names() {
		if c := k8slayout.KindOf(name).Class; c == plan.Binary || c == plan.Archive {
			all = append(all, Subject{bucket + "release/" + r.Version.String() + "/" + name, digest.SetOf(r.Files[name]).Map()})
		}
	}
	return all
}

// SignProvenance replaces provenance.json by a bundle, signed as an account.
func (r *Release) SignProvenance(s Signer, as string, predicate map[string]any) error {
	made, err := s.Statement(as, KindProvenance, predicate, r.Subjects()...)
	if err == nil {
		r.Files[k8slayout.Provenance] = made.Bundle
	}
	return err
}

// Autumn adds to a signed release what Kubernetes publishes since autumn 2026:
// signed provenance of files and images, a verification summary of each promoted
// manifest, statements that the build makes about its images, and a file as an
// OCI artifact.
func (r *Release) Autumn(ctx context.Context, s Signer) error {
	if err := r.SignProvenance(s, Staging, r.Provenance()); err != nil {
		return err
	}
	file := r.NewArtifact("kubeadm")
	if err := file.sign(s, Trust); err != nil {
		return err
	}
	r.Artifacts = append(r.Artifacts, file)
	var about []Subject
	for _, i := range slices.Concat(r.Images, r.Artifacts) {
		for repository, list := range i.published() {
			for _, m := range list {
				about = append(about, Subject{"gcr.io/k8s-staging-kubernetes/" + repository, map[string]string{"sha256": m.Descriptor.Digest.Hex()}})
			}
		}
	}
	slices.SortFunc(about, func(a, b Subject) int { return strings.Compare(a.Name, b.Name) })
	made, err := s.Statement(Staging, KindProvenance, r.Provenance(), about...)
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(workers)
	for _, i := range slices.Concat(r.Images, r.Artifacts) {
		group.Go(func() error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			return i.autumn(s, made)
		})
	}
	return group.Wait()
}

// autumn attaches provenance, summaries and the other statements to an image.
func (i *Image) autumn(s Signer, provenance Referring) error {
	for repository, list := range i.published() {
		for _, m := range list {
			summary := NewSummary(repository, m.Descriptor.Digest)
			if m == i.Index {
				summary.Levels[0] = "SLSA_BUILD_LEVEL_UNEVALUATED"
			}
			vouched, err := summary.Sign(s, Summaries)
			if err != nil {
				return err
			}
			m.Referring[repository] = append(m.Referring[repository], provenance, vouched)
			of := Subject{"registry.k8s.io/" + repository, map[string]string{"sha256": m.Descriptor.Digest.Hex()}}
			as := map[string]string{KindScan: Staging, KindBuildEnv: Staging, KindVEX: Staging, KindPromotion: Trust}
			for _, kind := range slices.Sorted(maps.Keys(as)) {
				if m == i.Index && kind != KindPromotion {
					continue // of each platform only
				}
				made, err := s.Statement(as[kind], kind, map[string]any{"synthetic": true}, of)
				if err != nil {
					return err
				}
				m.Referring[repository] = append(m.Referring[repository], made)
			}
		}
	}
	return nil
}

// attach publishes what refers to the manifest, as cosign does.
func (m *Manifest) attach(ctx context.Context, to registry.Sink, repository string) error {
	const empty, bundled = "application/vnd.oci.empty.v1+json", "application/vnd.dev.sigstore.bundle.v0.3+json"
	for _, one := range m.Referring[repository] {
		config := []byte("{}")
		attached := newManifest(registry.MediaTypeManifest, map[string]any{
			"schemaVersion": 2, "mediaType": registry.MediaTypeManifest, "artifactType": bundled, "config": describe(empty, config),
			"layers": []descriptor{describe(bundled, one.Bundle)}, "subject": describe(m.Descriptor.MediaType, m.Raw),
			"annotations": map[string]string{"dev.sigstore.bundle.content": "dsse-envelope", "dev.sigstore.bundle.predicateType": one.Kind},
		}, config, one.Bundle)
		if err := attached.push(ctx, to, repository); err != nil {
			return err
		}
	}
	return nil
}

// NewArtifact is a file for each platform of servers, promoted as an OCI
// artifact: an index of manifests with an empty configuration and the file as
// their only layer.
func (r *Release) NewArtifact(name string) *Image {
	i := &Image{Name: name, version: r.Version, Platforms: map[string]*Manifest{}, artifact: true}
	for _, platform := range serverPlatforms {
		body, config := r.Files["bin/"+platform+"/"+name], []byte("{}")
		layer := describe("application/octet-stream", body)
		layer.Annotations = map[string]string{"org.opencontainers.image.title": name, "io.k8s." + name + ".sha512": digest.SetOf(body).SHA512.Hex()}
		i.Platforms[platform] = newManifest(registry.MediaTypeManifest, map[string]any{
			"schemaVersion": 2, "mediaType": registry.MediaTypeManifest, "artifactType": "application/vnd.k8s." + name + ".v1",
			"config": describe("application/vnd.oci.empty.v1+json", config), "layers": []descriptor{layer},
		}, config, body)
	}
	i.Reindex()
	return i
}

// referrerOf is what the registry in memory keeps of a manifest that refers to
// another one.
func referrerOf(d registry.Descriptor, raw []byte) (subject string, _ registry.Descriptor) {
	var m struct {
		ArtifactType string            `json:"artifactType"`
		Annotations  map[string]string `json:"annotations"`
		Subject      struct {
			Digest string `json:"digest"`
		} `json:"subject"`
	}
	if json.Unmarshal(raw, &m) != nil {
		return "", d
	}
	d.ArtifactType, d.Annotations = m.ArtifactType, m.Annotations
	return m.Subject.Digest, d
}
