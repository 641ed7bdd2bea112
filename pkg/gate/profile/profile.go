// Package profile reads profiles. A profile maps the canonical addresses of a
// project's releases to the places where they are read and written, such as
// gs://BUCKET/{version}/ or github://OWNER/REPO/{version}/, and names
// the policy, the trust root and the proxy for Go modules. A file place that
// cannot be listed, such as a web server, can have a listing: the address of a
// bucket or directory that lists the same files. A profile belongs to the
// consumer and grants nothing: it can point at a place, but only the policy
// decides what is accepted.
//
//	p, err := profile.Load("profile.yaml", profile.Reader{Now: time.Now()})
//	files := p.Files(profile.Release, v)
package profile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	signedpolicy "github.com/waybill-release/waybill/attestations/policy/v1"
	"github.com/waybill-release/waybill/pkg/judge/policy"
	"github.com/waybill-release/waybill/pkg/judge/trust"
	"github.com/waybill-release/waybill/pkg/judge/verify"
	"github.com/waybill-release/waybill/pkg/judge/waiver"
	"github.com/waybill-release/waybill/pkg/tool/strictyaml"
	"github.com/waybill-release/waybill/pkg/value/identity"
	"github.com/waybill-release/waybill/pkg/value/verdict"
	"github.com/waybill-release/waybill/pkg/value/version"
)

// Stage is a place on a release's way to its users.
type Stage string

// The stages that a profile can map.
const (
	Staging Stage = "staging"
	Release Stage = "release"
)

// maxFile is the largest file that a profile may name.
const maxFile = 4 << 20

// Profile is a loaded profile with the policy and trust root that it names.
type Profile struct {
	Name string
	// Path is the file that it was read from, or the name of one that is built in.
	Path   string
	Policy policy.Policy
	// Pin says who must have signed the policy; nil if the profile does not.
	Pin       *policy.Pin
	TrustRoot trust.Root
	// Defects are the lists of known defects that the profile names.
	Defects []waiver.List
	// Signing is the signing_config.json, for commands that sign; may be empty.
	Signing []byte
	// ModuleProxy is where the Go modules of a build are fetched from.
	ModuleProxy string
	// Unsealed says that the releases have no manifest; nil if they have one.
	Unsealed *Unsealed
	// Channels says how to find the current release of a channel.
	Channels Channels
	// Markers is the place for the version markers of release.yaml; empty if
	// there are none.
	Markers string
	// Records are the names that the records of a release need.
	Records Records
	// Identities say where to get the identity token of each signer, if the
	// command line does not; files are relative to the profile.
	Identities map[string]string

	files, images mapping
	said          file
}

// Records configures verification summaries. Without both fields none are made.
type Records struct {
	// Verifier is the verifier ID in summaries, which consumers' policies
	// require together with the identity that signs.
	Verifier string `yaml:"verifier"`
	// Policy is the address where the policy can be read; the summary also has
	// its digest.
	Policy string `yaml:"policy"`
}

func (r Records) check() error {
	if (r.Verifier == "") != (r.Policy == "") {
		return fmt.Errorf("records: want both verifier and policy, or neither")
	}
	for _, uri := range []string{r.Verifier, r.Policy} {
		if scheme, rest, is := strings.Cut(uri, "://"); uri != "" && (!is || scheme == "" || rest == "") {
			return fmt.Errorf("records: %q is not a URI", uri)
		}
	}
	return nil
}

// Channels says how to find the current release of a channel, such as "stable".
// Both fields can be empty.
type Channels struct {
	// Index is the address of the bundle of the channel index.
	Index string `yaml:"index"`
	// Markers is the address of unsigned files that contain only a version;
	// {channel} stands for the channel's name.
	Markers string `yaml:"markers"`
}

func (c Channels) check() error {
	switch {
	case strings.HasSuffix(c.Index, "/"):
		return fmt.Errorf("channels.index: %q: want the address of a file", c.Index)
	case c.Markers != "" && (strings.Count(c.Markers, "{channel}") != 1 || strings.HasSuffix(c.Markers, "/")):
		return fmt.Errorf("channels.markers: %q: want the address of a file, with {channel} in it once", c.Markers)
	}
	return nil
}

type mapping struct {
	Canonical string `yaml:"canonical"`
	Staging   string `yaml:"staging"`
	Release   string `yaml:"release"`
	// Listing is where the files are listed, for a place that cannot be listed.
	Listing string `yaml:"listing"`
}

type file struct {
	APIVersion string `yaml:"apiVersion"`
	Kind       string `yaml:"kind"`
	Name       string `yaml:"name"`
	Policy     string `yaml:"policy"`
	// PolicySigner pins who must have signed the policy, in the bundle beside
	// it. PolicyName is the name and PolicySequence the lowest number that the
	// signed policy must have.
	PolicySigner   *identity.Identity `yaml:"policySigner"`
	PolicyName     string             `yaml:"policyName"`
	PolicySequence int                `yaml:"policySequence"`
	// KnownDefects is a signed list (a bundle), or an unsigned one in YAML,
	// which explains and excuses nothing.
	KnownDefects  string `yaml:"knownDefects"`
	TrustedRoot   string `yaml:"trustedRoot"`
	SigningConfig string `yaml:"signingConfig"`
	Places        struct {
		Files  mapping `yaml:"files"`
		Images mapping `yaml:"images"`
		// Markers is the place for version markers; release.yaml names them
		// below it.
		Markers string `yaml:"markers"`
	} `yaml:"places"`
	Modules  modules   `yaml:"modules"`
	Unsealed *Unsealed `yaml:"unsealed"`
	Channels Channels  `yaml:"channels"`
	Records  Records   `yaml:"records"`
	// Identities are the sources of identity tokens, by the names that
	// --identity has.
	Identities map[string]string `yaml:"identities"`
}

// Reader reads the files that a profile names.
type Reader struct {
	// Rules compiles the policy's own rules; nil refuses a policy with rules.
	Rules policy.Compiler
	// Now is the time at which a signed policy must be valid.
	Now time.Time
	// Trust returns the trust root for a profile that names none; nil refuses
	// such a profile.
	Trust func() (trust.Root, error)
	// ToSign reads a policy that is yet to be signed: the pin is read, and the
	// signature is not required. Never judge by such a profile.
	ToSign bool
	// Pin is the digest that [Profile.Carried] gave, which the user got by another
	// way than the kit that has the profile.
	Pin string

	carried map[string][]byte // the files of a kit, if the profile is one of them
}

// Load reads a profile and all files that it names. Paths are relative to the
// profile. [Kubernetes] and [KubernetesSealed] name the built-in profiles.
func Load(path string, with Reader) (Profile, error) {
	switch path {
	case Kubernetes:
		return kubernetes(with, "kubernetes-today")
	case KubernetesSealed:
		return kubernetes(with, "kubernetes-release")
	}
	if err := with.checkPin(path); err != nil {
		return Profile{}, err
	}
	raw, err := with.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Profile{}, &verdict.Error{Finding: verdict.Find(verdict.Usage, path, "the profile file %q does not exist, and no built-in profile has this name", path).
			Advise("name the file of a profile, or a built-in profile: " + Kubernetes + ", " + KubernetesSealed), Cause: err}
	}
	if err != nil {
		return Profile{}, err
	}
	f, err := parse(raw)
	if err != nil {
		return Profile{}, verdict.Wrap(verdict.ConfigParse, path, err)
	}
	p := Profile{
		Name: f.Name, Path: path, ModuleProxy: f.Modules.address(), Unsealed: f.Unsealed, Channels: f.Channels, Markers: f.Places.Markers, Records: f.Records,
		files: f.Places.Files, images: f.Places.Images, said: f,
	}
	if p.Identities = f.Identities; p.Identities != nil {
		for name, source := range p.Identities {
			if file, is := strings.CutPrefix(source, "file:"); is {
				p.Identities[name] = "file:" + relativeTo(filepath.Dir(path), file)
			}
		}
	}
	if err := p.loadNamed(f, filepath.Dir(path), with); err != nil {
		return Profile{}, fmt.Errorf("profile %q: %w", path, err)
	}
	return p, nil
}

// Check refuses a malformed profile. The files that it names are not read.
func Check(raw []byte) error {
	if _, err := parse(raw); err != nil {
		return verdict.Wrap(verdict.ConfigParse, "profile", err)
	}
	return nil
}

func parse(raw []byte) (f file, err error) {
	if err := strictyaml.Unmarshal(raw, &f); err != nil {
		return file{}, err
	}
	if err := f.check(); err != nil {
		return file{}, err
	}
	return f, nil
}

func (f file) check() error {
	switch {
	case f.APIVersion != "waybill/v1" || f.Kind != "Profile":
		return fmt.Errorf("apiVersion %.40q and kind %.40q: want waybill/v1 and Profile", f.APIVersion, f.Kind)
	case f.Name == "" || f.Policy == "":
		return fmt.Errorf("name and policy are required")
	case f.PolicySigner == nil && (f.PolicySequence != 0 || f.PolicyName != ""):
		return fmt.Errorf("policyName and policySequence: want a policySigner too: in an unsigned policy, anyone can change name and number")
	case f.PolicySigner != nil && (f.PolicySequence < 1 || f.PolicyName == ""):
		return fmt.Errorf("policySigner: want policyName and a policySequence of at least 1: the same officer also signs other and older policies")
	}
	if err := errors.Join(f.Places.Files.check("files", "{version}/"), f.Modules.check(), f.Unsealed.check(), f.Channels.check(), f.Records.check()); err != nil {
		return err
	}
	if m := f.Places.Markers; m != "" && (!strings.HasSuffix(m, "/") || strings.Contains(m, "{")) {
		return fmt.Errorf("places.markers: %q: want the address of a bucket or directory, ending in a slash, without {version}", m)
	}
	if f.Places.Images == (mapping{}) {
		return nil
	}
	return f.Places.Images.check("images", "")
}

func (m mapping) check(kind, suffix string) error {
	if m.Canonical == "" || m.Release == "" {
		return fmt.Errorf("places.%s: canonical and release are required", kind)
	}
	if kind == "images" && m.Listing != "" {
		return fmt.Errorf("places.images: a registry lists its tags itself; want no listing")
	}
	for _, uri := range []string{m.Canonical, m.Staging, m.Release, m.Listing} {
		if uri != "" && !strings.HasSuffix(uri, suffix) {
			return fmt.Errorf("places.%s: %q must end in %q", kind, uri, suffix)
		}
	}
	return nil
}

func (p *Profile) loadNamed(f file, dir string, with Reader) (err error) {
	if p.TrustRoot, err = f.trustRoot(dir, with); err != nil {
		return err
	}
	if err := p.loadPolicy(f, relativeTo(dir, f.Policy), with); err != nil {
		return err
	}
	if f.KnownDefects != "" {
		list, err := with.readDefects(relativeTo(dir, f.KnownDefects), p.TrustRoot, p.Policy)
		if err != nil {
			return err
		}
		p.Defects = append(p.Defects, list)
	}
	if f.SigningConfig != "" {
		p.Signing, err = with.read(relativeTo(dir, f.SigningConfig))
	}
	return err
}

// trustRoot is the root that the profile names, else the reader's.
func (f file) trustRoot(dir string, with Reader) (trust.Root, error) {
	switch {
	case f.TrustedRoot == "" && with.Trust == nil:
		return trust.Root{}, verdict.Refuse(verdict.ConfigParse, "profile", "trustedRoot: required, because this command fetches no trust root")
	case f.TrustedRoot == "":
		return with.Trust()
	}
	raw, err := with.read(relativeTo(dir, f.TrustedRoot))
	if err != nil {
		return trust.Root{}, err
	}
	root, err := trust.Parse(raw)
	return root, verdict.InFile(relativeTo(dir, f.TrustedRoot), err)
}

// loadPolicy reads the policy and, if the profile pins its signer, the
// signature beside it.
func (p *Profile) loadPolicy(f file, path string, with Reader) error {
	raw, err := with.read(path)
	if err != nil {
		return err
	}
	if p.Policy, err = policy.Parse(raw, with.Rules); err != nil {
		return verdict.InFile(path, err)
	}
	if f.PolicySigner == nil {
		return nil
	}
	signer, err := identity.Exact(*f.PolicySigner)
	if err != nil {
		return verdict.Wrap(verdict.ConfigParse, "policySigner", err)
	}
	if p.Pin = (&policy.Pin{Name: f.PolicyName, Signer: signer, Sequence: f.PolicySequence}); with.ToSign {
		return nil
	}
	bundle, err := with.read(path + signedpolicy.Suffix)
	if errors.Is(err, fs.ErrNotExist) {
		return verdict.Refuse(verdict.PolicySig, p.Policy.Name(), "the profile pins the signer of the policy, and there is no signature %s", path+signedpolicy.Suffix)
	}
	if err != nil {
		return err
	}
	verifier, err := verify.New(p.TrustRoot)
	if err != nil {
		return err
	}
	e, err := verifier.Attestation(bundle)
	if err != nil {
		return verdict.Wrap(verdict.PolicySig, p.Policy.Name(), err)
	}
	return p.Policy.Signed(e, raw, *p.Pin, with.Now)
}

// ReadDefects reads a list of known defects: a bundle signed by the policy's
// officer, or unsigned YAML.
func ReadDefects(path string, root trust.Root, p policy.Policy) (waiver.List, error) {
	return Reader{}.readDefects(path, root, p)
}

func (r Reader) readDefects(path string, root trust.Root, p policy.Policy) (waiver.List, error) {
	raw, err := r.read(path)
	if err != nil {
		return waiver.List{}, err
	}
	if !strings.HasSuffix(path, signedpolicy.Suffix) {
		list, err := waiver.UnsignedList(raw)
		return list, verdict.InFile(path, err)
	}
	verifier, err := verify.New(root)
	if err != nil {
		return waiver.List{}, err
	}
	e, err := verifier.Attestation(raw)
	if err != nil {
		return waiver.List{}, fmt.Errorf("%s: %w", path, err)
	}
	list, err := waiver.ParseList(e, p)
	if err != nil {
		return waiver.List{}, fmt.Errorf("%s: %w", path, err)
	}
	return list, nil
}

// Files is the address of the file place of a version at a stage.
func (p Profile) Files(s Stage, v version.Version) (string, error) {
	return p.placeURI(p.files, "files", s, v)
}

// Listing is where the files of a version are listed at a stage, if elsewhere;
// else empty.
func (p Profile) Listing(s Stage, v version.Version) string {
	if s != Release {
		return ""
	}
	return fill(p.files.Listing, v)
}

// Images is the registry prefix at a stage; empty if the project has none.
func (p Profile) Images(s Stage, v version.Version) (string, error) {
	if p.images == (mapping{}) {
		return "", nil
	}
	return p.placeURI(p.images, "images", s, v)
}

// Canonical returns the addresses that the manifest must name.
func (p Profile) Canonical(v version.Version) (files, images string) {
	return fill(p.files.Canonical, v), fill(p.images.Canonical, v)
}

func (p Profile) placeURI(m mapping, kind string, s Stage, v version.Version) (string, error) {
	uri := map[Stage]string{Staging: m.Staging, Release: m.Release}[s]
	if uri == "" {
		return "", verdict.Refuse(verdict.ConfigParse, p.Path, "places.%s.%s: missing, and this command needs it", kind, s)
	}
	return fill(uri, v), nil
}

func fill(uri string, v version.Version) string {
	return strings.ReplaceAll(uri, "{version}", v.String())
}

func relativeTo(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// read reads a file. Those of a kit were read when the pin was compared.
func (r Reader) read(path string) ([]byte, error) {
	if _, name, is := inKit(path); is && r.carried != nil {
		if raw, there := r.carried[name]; there {
			return raw, nil
		}
		return nil, verdict.Wrap(verdict.Usage, path, fs.ErrNotExist)
	}
	return readFile(path)
}

func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, verdict.Wrap(verdict.Usage, path, err)
	}
	if info.Size() > maxFile {
		return nil, verdict.Refuse(verdict.ConfigParse, path, "%d bytes, the limit is %d", info.Size(), maxFile)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, verdict.Wrap(verdict.Usage, path, err)
	}
	return raw, nil
}
