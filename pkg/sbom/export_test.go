package sbom

import "context"

// For the tests outside the package.
type Held = held

func Check(ctx context.Context, q Question) (Held, error) { return compareDocument(ctx, q) }
