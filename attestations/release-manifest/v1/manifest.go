// Package releasemanifest is the encoding of the release manifest predicate,
// version 1: the complete list of everything that a release publishes.
//
// The README beside this file is the specification and schema.json its JSON
// Schema. This package is pure data. pkg/release/manifest has the value that
// programs work with, and the only conversion between the two.
package releasemanifest

import (
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"
)

// PredicateType is the type of the predicate.
const PredicateType = "https://github.com/waybill-release/waybill/attestations/release-manifest/v1"

// Name is the fixed name of the manifest's bundle in a file place. It is the
// commit point of a release: written last, and the only object that no list
// contains.
const Name = "release.manifest.sigstore.json"

// Predicate contains what the statement's subjects cannot express.
type Predicate struct {
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Channel    string     `json:"channel"`
	Revision   int        `json:"revision"`
	Supersedes string     `json:"supersedes,omitempty"`
	Change     string     `json:"change,omitempty"`
	SealedOn   time.Time  `json:"sealedOn"`
	Expires    *time.Time `json:"expires,omitempty"`

	Source Source `json:"source"`
	Config File   `json:"config"`
	Lock   *File  `json:"lock,omitempty"`

	Places    []Place    `json:"places"`
	Artifacts []Artifact `json:"artifacts"`
	Pages     []Page     `json:"pages,omitempty"`
	Runs      []Run      `json:"runs"`

	Withdrawn *Withdrawal `json:"withdrawn,omitempty"`

	// A reader may ignore Extensions that it does not know, but must refuse
	// unknown Critical ones.
	Extensions map[string]json.RawMessage `json:"extensions,omitempty"`
	Critical   map[string]json.RawMessage `json:"critical,omitempty"`
}

// Source names the revision that the release was built from.
type Source struct {
	Repository string `json:"repository"`
	Ref        string `json:"ref"`
	Commit     string `json:"commit"`
	Tree       string `json:"tree"`
}

// File is a configuration file in the source, with its digest.
type File struct {
	Path   string `json:"path"`
	SHA256 string `json:"sha256"`
}

// Place is one canonical address and the scope in it that the release owns:
// everything in the scope that is not listed is extra.
type Place struct {
	Kind  string `json:"kind"`
	URI   string `json:"uri"`
	Scope Scope  `json:"scope"`
}

// Scope is what a release owns in a place: everything below the address of a
// file place, or the named tags of every repository below a registry prefix.
type Scope struct {
	Prefix bool     `json:"prefix,omitempty"`
	Tags   []string `json:"tags,omitempty"`
}

// Artifact adds information to the subject of the statement that it names.
type Artifact struct {
	Name       string   `json:"name"`
	Class      string   `json:"class"`
	Place      string   `json:"place"`
	Size       int64    `json:"size"`
	MediaType  string   `json:"mediaType"`
	Platform   string   `json:"platform,omitempty"`
	Repository string   `json:"repository,omitempty"`
	Tags       []string `json:"tags,omitempty"`
	Step       string   `json:"step,omitempty"`
	Provenance string   `json:"provenance,omitempty"`
	SBOM       string   `json:"sbom,omitempty"`
	Signature  string   `json:"signature,omitempty"`
}

// PageType is the predicate type of a page.
const PageType = PredicateType + "#page"

// FormerPages is the extension that lists pages of superseded revisions.
const FormerPages = PredicateType + "#former-pages"

// PageDir is the directory of pages in a file place.
const PageDir = "release.manifest.pages/"

// PagePredicate contains what the subjects of a page cannot express, as
// [Predicate] does for those of a manifest.
type PagePredicate struct {
	Name      string     `json:"name"`
	Version   string     `json:"version"`
	Artifacts []Artifact `json:"artifacts"`
}

// Page binds one page of a manifest that is too long for one statement.
type Page struct {
	Name   string `json:"name"`
	SHA256 string `json:"sha256"`
	First  string `json:"first"`
	Last   string `json:"last"`
	Count  int    `json:"count"`
}

// Run is one run that contributed to the release.
type Run struct {
	Kind    string `json:"kind"`
	ID      string `json:"id"`
	TraceID string `json:"traceId,omitempty"`
}

// RunTraces is the extension with more information about the runs.
const RunTraces = PredicateType + "#run-traces"

// RunTrace is the information about one run in the extension. Every field may
// be empty.
type RunTrace struct {
	SpanID         string `json:"spanId,omitempty"`
	InitialTraceID string `json:"initialTraceId,omitempty"`
	Command        string `json:"command,omitempty"`
}

// Withdrawal says that the release must no longer be used.
type Withdrawal struct {
	Reason string `json:"reason"`
	Use    string `json:"use,omitempty"`
}

// CheckName refuses a name that no artifact may have: an ambiguous path, or the
// name of the manifest's own bundle, which no list can contain.
func CheckName(name string) error {
	if name == "" || name == "." || len(name) > 512 || path.Clean(name) != name || strings.HasPrefix(name, "/") || strings.HasPrefix(name, "..") {
		return fmt.Errorf("artifact %.200q: want a clean relative name", name)
	}
	if strings.Trim(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._+@~/-") != "" {
		return fmt.Errorf("artifact %.200q: want only letters, digits and ._+@~-/", name)
	}
	if name == Name || strings.HasPrefix(name, PageDir) {
		return fmt.Errorf("artifact %.200q: the name is reserved for the manifest's own files", name)
	}
	return nil
}
