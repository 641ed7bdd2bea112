package policy

import (
	"github.com/waybill-release/waybill/pkg/judge/slsa"
	"github.com/waybill-release/waybill/pkg/release/plan"
	"github.com/waybill-release/waybill/pkg/value/identity"
)

// file is a policy as it is written. Each part has its own loader; schema.json
// describes the same keys for editors.
type file struct {
	APIVersion string            `yaml:"apiVersion"`
	Kind       string            `yaml:"kind"`
	Name       string            `yaml:"name"`
	Sequence   int               `yaml:"sequence"`
	Expires    string            `yaml:"expires"`
	TrustRoot  *fileTrustRoot    `yaml:"trustRoot"`
	Roles      map[Role][]signer `yaml:"roles"`
	Builders   []fileBuilder     `yaml:"builders"`
	Sources    []fileVerifier    `yaml:"sources"`
	Declares   []fileDeclaration `yaml:"declares"`
	// Inputs are the images and tools that builds may use.
	Inputs     []fileInput     `yaml:"inputs"`
	Source     fileSource      `yaml:"source"`
	Build      *fileBuild      `yaml:"build"`
	Require    []fileRequire   `yaml:"require"`
	Plan       Mode            `yaml:"plan"`
	Closed     map[string]Mode `yaml:"closed"`
	Regression Mode            `yaml:"regression"`
	Digests    string          `yaml:"digests"`
	// Children is whose evidence counts for the manifests in an image index.
	Children   string            `yaml:"children"`
	Late       []fileLate        `yaml:"late"`
	Rebuilt    *fileRebuilt      `yaml:"rebuilt"`
	Signoff    *fileSignoff      `yaml:"signoff"`
	Thresholds map[string]int    `yaml:"thresholds"`
	Witnesses  *fileWitnesses    `yaml:"witnesses"`
	Limits     map[string]string `yaml:"limits"`
	Summaries  []fileSummary     `yaml:"summaries"`
	Defects    *fileDefects      `yaml:"defects"`
	Rules      []fileRule        `yaml:"rules"`
	// Features are the requirements that features may switch on and off.
	Features map[string]fileFeature `yaml:"features"`
	// Unsigned accepts artifacts without any signed evidence.
	Unsigned bool `yaml:"insecureAcceptUnsigned"`
}

// fileWitnesses says whose cosignatures checkpoints need.
type fileWitnesses struct {
	AtLeast int      `yaml:"atLeast"`
	Keys    []string `yaml:"keys"`
}

// fileTrustRoot says which trust roots are accepted beside those of real
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
	// Key is a PEM public key in place of an identity, for signatures without a
	// certificate.
	Key   string `yaml:"key"`
	From  string `yaml:"from"`
	Until string `yaml:"until"`
	// Stages and Classes limit what the identity may sign, where a project has
	// different identities for images and files. Omitted, there is no limit.
	Stages  []Stage      `yaml:"stages"`
	Classes []plan.Class `yaml:"classes"`
	// Claims are the exact values that other fields of the certificate must
	// have. {version} in a value is the version of the release.
	Claims map[string]string `yaml:"claims"`
}

type fileBuilder struct {
	ID       string `yaml:"id"`
	Level    int    `yaml:"level"`
	Hermetic bool   `yaml:"hermetic"`
	Complete bool   `yaml:"complete"`
	// Enforced says by what means the builder ensures that what it lists is
	// complete; level 4 needs it.
	Enforced string `yaml:"enforced"`
	// SharesRelease says that its signers may also have the role release.
	SharesRelease bool     `yaml:"sharesRelease"`
	Signers       []signer `yaml:"signers"`
}

type fileSource struct {
	Repository string `yaml:"repository"`
	Ref        string `yaml:"ref"`
	// VersionedTag is a version that must cover the tag, instead of Ref.
	VersionedTag string `yaml:"versionedTag"`
}

type fileBuild struct {
	Types      []string        `yaml:"types"`
	Parameters []fileParameter `yaml:"parameters"`
}

// fileParameter is the allowed value of one external parameter. Exactly one of
// the three fields Is, OneOf and Any is set.
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
	// Levels are required levels of other tracks than Build.
	Levels map[slsa.Track]int `yaml:"levels"`
	// Profile is a set of elements that SBOMs must give.
	Profile string `yaml:"profile"`
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
	// Template is the template that the documents must have been checked
	// against; omitted, the signer of the sign-off may choose.
	Template *struct {
		SHA256 string `yaml:"sha256"`
	} `yaml:"template"`
}

type fileSummary struct {
	Verifier string `yaml:"verifier"`
	// Signers lists the identities of the verifier role that may sign for this
	// verifier; omitted, all may.
	Signers  []signer       `yaml:"signers"`
	Resource string         `yaml:"resource"`
	Policy   filePinned     `yaml:"policy"`
	Levels   map[string]int `yaml:"levels"`
	MaxAge   string         `yaml:"maxAge"`
}

type filePinned struct {
	URI    string `yaml:"uri"`
	SHA256 string `yaml:"sha256"`
	// Commit is "any" for a policy of which each summary names the Git commit.
	Commit string `yaml:"commit"`
}

type fileDefects struct {
	AtLeast int `yaml:"atLeast"`
}

type fileRule struct {
	Name    string       `yaml:"name"`
	Classes []plan.Class `yaml:"classes"`
	Holds   string       `yaml:"holds"`
}
