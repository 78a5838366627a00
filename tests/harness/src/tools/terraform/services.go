// The services of the provider that the tests of infra/terraform use, instead of those of all AWS, whose
// clients take too long to compile. The provider's generator writes this file for all services.

package sdkv2

import (
	"context"

	"github.com/hashicorp/terraform-provider-aws/internal/conns"
	"github.com/hashicorp/terraform-provider-aws/internal/service/cloudformation"
	"github.com/hashicorp/terraform-provider-aws/internal/service/s3"
	"github.com/hashicorp/terraform-provider-aws/internal/service/sts"
)

func servicePackages(ctx context.Context) []conns.ServicePackage {
	return []conns.ServicePackage{
		cloudformation.ServicePackage(ctx),
		s3.ServicePackage(ctx),
		sts.ServicePackage(ctx),
	}
}
