package policy

import (
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/identity"
)

// file is a policy as it is written. Every key is read by the loader of its
// part; schema.json says the same for editors.
type file struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Name       string            `yaml:"name"`
	Sequence   int               `yaml:"sequence"`
	Expires    string            `yaml:"expires"`
	TrustRoot  *fileTrustRoot    `yaml:"trustRoot"`
	Roles      map[Role][]signer `yaml:"roles"`
	Builders   []fileBuilder     `yaml:"builders"`
	Source     fileSource        `yaml:"source"`
	Build      *fileBuild        `yaml:"build"`
	Require    []fileRequire     `yaml:"require"`
	Plan       Mode              `yaml:"plan"`
	Closed     map[string]Mode   `yaml:"closed"`
	Digests    string            `yaml:"digests"`
	Late       []fileLate        `yaml:"late"`
	Signoff    *fileSignoff      `yaml:"signoff"`
	Thresholds map[string]int    `yaml:"thresholds"`
	Limits     map[string]string `yaml:"limits"`
	Summaries  []fileSummary     `yaml:"summaries"`
	Defects    *fileDefects      `yaml:"defects"`
	Rules      []fileRule        `yaml:"rules"`
	// Features are the requirements that features may switch on and off.
	Features map[string]fileFeature `yaml:"features"`
	// Unsigned has the policy accept what nothing signed speaks for.
	Unsigned bool `yaml:"insecureAcceptUnsigned"`
}

// fileTrustRoot says which trust roots will do beside those of real
// authorities.
type fileTrustRoot struct {
	Lab Mode `yaml:"lab"`
}

// signer is one entry of a role: an exact subject, a pattern of subjects, or a
// key.
type signer struct {
	Issuer  string           `yaml:"issuer"`
	Subject string           `yaml:"subject"`
	Pattern string           `yaml:"pattern"`
	Type    identity.SANType `yaml:"type"`
	// Key is a public key in PEM, in place of an identity: whoever holds it
	// signs without a certificate.
	Key   string `yaml:"key"`
	From  string `yaml:"from"`
	Until string `yaml:"until"`
	// Stages and Classes narrow what the identity may sign, where a project
	// has one for images and another for files. Left out, they narrow nothing.
	Stages  []Stage      `yaml:"stages"`
	Classes []plan.Class `yaml:"classes"`
	// Claims are what the certificate must say besides, exactly.
	Claims map[string]string `yaml:"claims"`
}

type fileBuilder struct {
	ID       string   `yaml:"id"`
	Level    int      `yaml:"level"`
	Hermetic bool     `yaml:"hermetic"`
	Complete bool     `yaml:"complete"`
	Signers  []signer `yaml:"signers"`
}

type fileSource struct {
	Repository string `yaml:"repository"`
	Ref        string `yaml:"ref"`
}

type fileBuild struct {
	Types      []string        `yaml:"types"`
	Parameters []fileParameter `yaml:"parameters"`
}

// fileParameter is what one external parameter may be. Exactly one of the
// three says so.
type fileParameter struct {
	Name     string   `yaml:"name"`
	Is       string   `yaml:"is"`
	OneOf    []string `yaml:"oneOf"`
	Any      bool     `yaml:"any"`
	Optional bool     `yaml:"optional"`
}

type fileRequire struct {
	Stages  []Stage        `yaml:"stages"`
	Classes []plan.Class   `yaml:"classes"`
	Checks  map[Check]Mode `yaml:"checks"`
	Level   int            `yaml:"level"`
}

type fileLate struct {
	Predicate string  `yaml:"predicate"`
	Role      Role    `yaml:"role"`
	Stages    []Stage `yaml:"stages"`
}

// fileSignoff says where a release needs a sign-off.
type fileSignoff struct {
	Stages []Stage `yaml:"stages"`
	MaxAge string  `yaml:"maxAge"`
	// Template is what the documents must have been held against; left out, the
	// role may choose.
	Template *struct {
		SHA256 string `yaml:"sha256"`
	} `yaml:"template"`
}

type fileSummary struct {
	Verifier string `yaml:"verifier"`
	// Signers are who of the verifier role may speak for it; left out, all.
	Signers  []signer       `yaml:"signers"`
	Resource string         `yaml:"resource"`
	Policy   filePinned     `yaml:"policy"`
	Levels   map[string]int `yaml:"levels"`
	MaxAge   string         `yaml:"maxAge"`
}

type filePinned struct {
	URI    string `yaml:"uri"`
	SHA256 string `yaml:"sha256"`
}

type fileDefects struct {
	AtLeast int `yaml:"atLeast"`
}

type fileRule struct {
	Name    string       `yaml:"name"`
	Classes []plan.Class `yaml:"classes"`
	Holds   string       `yaml:"holds"`
}
