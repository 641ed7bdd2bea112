package lab

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/waybill-release/waybill/pkg/testing/releases"
)

// The files that a running lab keeps in its directory.
const (
	PageFile          = "lab.json"
	TrustedRootFile   = "trusted_root.json"
	SigningConfigFile = "signing_config.json"
	TUFRootFile       = "root.json"
	PIDFile           = "pid"
	TokenDir          = "tokens" // a token of each role, if something writes them
)

// Identity is what the certificates of one role say.
type Identity struct {
	Issuer  string `json:"issuer"`
	Subject string `json:"subject"`
}

// Page says where everything is: lab.json.
type Page struct {
	URLs
	Dir           string              `json:"dir"`
	TrustedRoot   string              `json:"trustedRoot"`
	SigningConfig string              `json:"signingConfig"`
	TUFRoot       string              `json:"tufRoot"`
	Identities    map[string]Identity `json:"identities"` // by role
	PID           int                 `json:"pid"`
}

// Publish writes the lab's files into dir, lab.json last: once that is there,
// everything is.
func (l *Lab) Publish(dir string) (Page, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return Page{}, fmt.Errorf("publishing the lab: %w", err)
	}
	p := Page{
		URLs: l.URLs, Dir: dir, PID: os.Getpid(), Identities: map[string]Identity{},
		TrustedRoot:   filepath.Join(dir, TrustedRootFile),
		SigningConfig: filepath.Join(dir, SigningConfigFile),
		TUFRoot:       filepath.Join(dir, TUFRootFile),
	}
	for _, role := range Roles() {
		issuer, subject := l.Identity(role)
		p.Identities[role] = Identity{Issuer: issuer, Subject: subject}
	}
	page, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		return Page{}, fmt.Errorf("encoding %s: %w", PageFile, err)
	}
	for _, f := range []struct {
		name string
		b    []byte
	}{
		{TrustedRootFile, l.TrustedRoot}, {SigningConfigFile, l.SigningConfig}, {TUFRootFile, l.TUFRoot},
		{PIDFile, []byte(strconv.Itoa(p.PID) + "\n")}, {PageFile, append(page, '\n')},
	} {
		tmp := filepath.Join(dir, f.name+".tmp")
		if err := errors.Join(os.WriteFile(tmp, f.b, 0o600), os.Rename(tmp, filepath.Join(dir, f.name))); err != nil {
			return Page{}, fmt.Errorf("publishing the lab: %w", err)
		}
	}
	return p, nil
}

// Unpublish removes what says that a lab runs in dir.
func Unpublish(dir string) error {
	var errs []error
	for _, name := range []string{PageFile, PIDFile} {
		if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// ErrNotRunning says that no lab runs in the directory.
var ErrNotRunning = errors.New("no lab is running there; start one with: waybill-lab up --dir DIR")

// ReadPage reads the page of the lab that runs in dir.
func ReadPage(dir string) (Page, error) {
	b, err := os.ReadFile(filepath.Join(dir, PageFile))
	if errors.Is(err, fs.ErrNotExist) {
		return Page{}, fmt.Errorf("reading the lab's page in %q: %w", dir, ErrNotRunning)
	}
	if err != nil {
		return Page{}, fmt.Errorf("reading the lab's page: %w", err)
	}
	var p Page
	if err := json.Unmarshal(b, &p); err != nil {
		return Page{}, fmt.Errorf("reading the lab's page in %q: %w", dir, err)
	}
	return p, nil
}

// WriteText prints the page for people: where everything is and the flags to
// use it with.
func (p Page) WriteText(w io.Writer) error {
	replace := strings.NewReplacer(
		"{issuer}", p.Issuer, "{fulcio}", p.Fulcio, "{ct}", p.CT, "{rekor}", p.Rekor, "{rekor1}", p.RekorV1, "{tsa}", p.TSA, "{tuf}", p.TUF,
		"{registry}", p.Registry, "{bucket}", p.Bucket, "{modules}", p.Modules, "{github}", p.GitHub, "{githubHost}", strings.TrimPrefix(p.GitHub, "http://"), "{githubToken}", releases.Token, "{bucketHost}", strings.TrimPrefix(p.Bucket, "http://"), "{dir}", p.Dir,
		"{root}", p.TrustedRoot, "{config}", p.SigningConfig, "{tufRoot}", p.TUFRoot,
		"{subject}", p.Identities[RoleRelease].Subject, "{pid}", strconv.Itoa(p.PID), "{mark}", Mark,
		"{roles}", strings.Join(Roles(), ", "),
	)
	_, err := replace.WriteString(w, pageText)
	return err
}

const pageText = `{mark}: anyone on this machine can be anyone here. Trust nothing it signs elsewhere.

  directory   {dir}   (pid {pid})
  issuer      {issuer}
  fulcio      {fulcio}
  ct log      {ct}
  rekor v2    {rekor}
  rekor v1    {rekor1}
  timestamps  {tsa}
  tuf         {tuf}
  registry    {registry}
  bucket      {bucket}   (staging, release, mirror)
  modules     {modules}   (example.test/wick v0.1.0)
  github      {github}/api/v3   (lab/lantern)
  identities  {roles}: <role>@lab.invalid

An identity token (ten minutes):
  waybill-lab token --dir {dir} --as release --out token

waybill:
  a profile    names {root} as trustedRoot and {config} as signingConfig
  sign         --identity-token release=token
  verify file  --trusted-root {root} --certificate-identity {subject} --certificate-oidc-issuer {issuer}
  files        gs+http://{bucketHost}/staging/   or, not listable, {bucket}/staging/
  images       {registry}/staging
  releases     github+http://{githubHost}/lab/lantern/VERSION/   with GH_ENTERPRISE_TOKEN={githubToken}

cosign:
  cosign sign-blob --signing-config {config} --trusted-root {root} --identity-token token --bundle FILE.bundle --yes FILE
  cosign verify-blob --trusted-root {root} --use-signed-timestamps --certificate-identity {subject} --certificate-oidc-issuer {issuer} --bundle FILE.bundle FILE
  cosign initialize --mirror {tuf} --root {tufRoot}
  images: add --allow-http-registry

Google and Amazon clients of the bucket:
  STORAGE_EMULATOR_HOST={bucket}
  AWS_ENDPOINT_URL_S3={bucket} AWS_REGION=lab AWS_ACCESS_KEY_ID=lab AWS_SECRET_ACCESS_KEY=lab   (path style)

Go:
  GOPROXY={modules} GOSUMDB=off   (modules.proxy of a profile)

Stop it: Ctrl-C, or waybill-lab down --dir {dir}
`
