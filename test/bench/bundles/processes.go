package bundles

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
)

// Processes verifies the first n bundles of a set with one process of cosign
// for each.
func Processes(ctx context.Context, cosign, dir string, s Set, n int) error {
	issuer, err := os.ReadFile(filepath.Join(dir, IssuerName))
	if err != nil {
		return err
	}
	subject, err := os.ReadFile(filepath.Join(dir, SubjectName))
	if err != nil {
		return err
	}
	for i := range n {
		args := []string{
			"verify-blob", s.Path(dir, i), "--bundle", s.Path(dir, i) + BundleExt,
			"--certificate-identity", string(subject), "--certificate-oidc-issuer", string(issuer),
			"--trusted-root", filepath.Join(dir, RootName),
		}
		if s.Shape == RekorV2 {
			args = append(args, "--use-signed-timestamps")
		}
		cmd := exec.CommandContext(ctx, cosign, args...)
		cmd.Env = append(os.Environ(), "HOME="+dir, "COSIGN_EXPERIMENTAL=")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("bundle %d: %w\n%.2000s", i, err, out)
		}
	}
	return nil
}
