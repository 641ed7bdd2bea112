// Package channelindex is the encoding of the channel index predicate, version
// 1: which release each channel of a project points to, and the order of the
// indexes.
//
//	s, err := channelindex.New(p, map[string]digest.Set{"v0.1.0": digest.SetOf(bundle)})
//	x, err := channelindex.Parse(evidence.Statement())
//
// The README beside this file is the specification and schema.json its JSON
// Schema. pkg/judge/channel decides who may sign an index, and which number is
// too low.
package channelindex

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/waybill-release/waybill/pkg/document/intoto"
	"github.com/waybill-release/waybill/pkg/tool/pattern"
	"github.com/waybill-release/waybill/pkg/value/digest"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// PredicateType is the type of the predicate.
const PredicateType = "https://github.com/waybill-release/waybill/attestations/channel/v1"

// Name is the usual name of an index's bundle.
const Name = "channels.sigstore.json"

// maxSize limits the predicate.
const maxSize = 1 << 20

// maxLife is the longest lifetime of an index.
const maxLife = 400 * 24 * time.Hour

// maxChannels limits the number of channels.
const maxChannels = 1000

// projects matches the names of projects, as in release.yaml.
var projects = pattern.Lazy(`\A[a-z0-9][a-z0-9._-]{0,63}\z`)

// channels matches latest, or one of the kinds of releases; of all versions, or
// of those of one major or minor version.
var channels = pattern.Lazy(`\A(latest|stable|rc|beta|alpha)(-(0|[1-9][0-9]{0,8})(\.(0|[1-9][0-9]{0,8}))?)?\z`)

// Predicate says which version each channel points to. The subjects of its
// statement are the manifests of those versions.
type Predicate struct {
	Name     string    `json:"name"`
	Number   int       `json:"number"`
	Issued   time.Time `json:"issued"`
	Expires  time.Time `json:"expires"`
	Channels []Entry   `json:"channels"`
}

// Entry is one channel.
type Entry struct {
	Channel string `json:"channel"`
	Version string `json:"version"`
}

// Index is a parsed statement: the predicate and, for each of its versions, the
// digest of the bundle of that release's manifest. It is not verified.
type Index struct {
	Predicate
	Manifests map[string]digest.Set
}

// Validate refuses an index that never expires, that could be read in two ways,
// or with a channel whose version does not fit its name.
func (p Predicate) Validate() error {
	switch {
	case !projects().MatchString(p.Name):
		return refuse("name %q: want up to 64 of lower-case letters, digits and ._-", p.Name)
	case p.Number < 1:
		return refuse("number %d: numbers start at 1, and each index has a higher one", p.Number)
	case p.Issued.IsZero() || !p.Expires.After(p.Issued):
		return refuse("issued %s, expires %s: want a time after another", p.Issued.Format(time.RFC3339), p.Expires.Format(time.RFC3339))
	case p.Expires.Sub(p.Issued) > maxLife:
		return refuse("the lifetime is %s, the limit is %s", p.Expires.Sub(p.Issued), maxLife)
	case len(p.Channels) == 0 || len(p.Channels) > maxChannels:
		return refuse("%d channels: want 1 to %d", len(p.Channels), maxChannels)
	}
	for i, e := range p.Channels {
		if err := e.Validate(); err != nil {
			return err
		}
		if slices.ContainsFunc(p.Channels[:i], func(other Entry) bool { return other.Channel == e.Channel }) {
			return refuse("channel %s is listed twice", e.Channel)
		}
	}
	return nil
}

// IsChannel reports whether a name is that of a channel.
func IsChannel(name string) bool { return channels().MatchString(name) }

// Validate refuses a channel whose version does not fit its name.
func (e Entry) Validate() error {
	if !IsChannel(e.Channel) {
		return refuse("channel %q: want latest, stable, rc, beta or alpha, alone or with -MAJOR or -MAJOR.MINOR", e.Channel)
	}
	v, err := version.Parse(e.Version)
	if err != nil {
		return refuse("channel %s: %v", e.Channel, err)
	}
	kind, numbers, some := strings.Cut(e.Channel, "-")
	if kind != "latest" && kind != v.Channel().String() {
		return refuse("channel %s: %s is %s", e.Channel, v, v.Channel())
	}
	if v.IsBuild() {
		return refuse("channel %s: %s is a build between two releases, and channels point to releases", e.Channel, v)
	}
	if some && !strings.HasPrefix(e.Version, "v"+numbers+".") {
		return refuse("channel %s: %s is of another major or minor version", e.Channel, v)
	}
	return nil
}

// New makes the statement of an index. Channels and subjects are sorted, so
// equal indexes are equal bytes.
func New(p Predicate, manifests map[string]digest.Set) (intoto.Statement, error) {
	p.Channels = slices.Clone(p.Channels)
	slices.SortFunc(p.Channels, func(a, b Entry) int { return strings.Compare(a.Channel, b.Channel) })
	var subjects []intoto.Subject
	for name, set := range manifests {
		subjects = append(subjects, intoto.Subject{Name: name, Digests: set})
	}
	slices.SortFunc(subjects, func(a, b intoto.Subject) int { return strings.Compare(a.Name, b.Name) })
	return intoto.NewFor(Parse, PredicateType, subjects, p)
}

// Parse parses the statement strictly. Each version of a channel is a subject,
// and each subject the version of a channel.
func Parse(s intoto.Statement) (Index, error) {
	x := Index{Manifests: map[string]digest.Set{}}
	s, err := s.DecodeStrict(PredicateType, "channels", "which release a channel stands for", maxSize, &x.Predicate)
	if err != nil {
		return Index{}, err
	}
	return x, x.bind(s.Subjects())
}

func (x Index) bind(subjects []intoto.Subject) error {
	for _, s := range subjects {
		_, twice := x.Manifests[s.Name]
		switch {
		case twice || s.Digests.SHA256.IsZero() || s.Digests.SHA512.IsZero():
			return refuse("subject %q: want each once, with sha256 and sha512", s.Name)
		case !slices.ContainsFunc(x.Channels, func(e Entry) bool { return e.Version == s.Name }):
			return refuse("subject %q is not the version of any channel", s.Name)
		}
		x.Manifests[s.Name] = s.Digests
	}
	for _, e := range x.Channels {
		if _, there := x.Manifests[e.Version]; !there {
			return refuse("channel %s: no subject is the manifest of %s", e.Channel, e.Version)
		}
	}
	return nil
}

func refuse(format string, args ...any) error {
	return verdict.Refuse(verdict.StatementParse, "channels", "%s", fmt.Sprintf(format, args...))
}
