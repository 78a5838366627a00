// The services of the provider that the tests of infra/terraform use, instead of those of all AWS, whose
// clients take too long to compile. The provider's generator writes this file for all services.

package conns

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/service/account"
	"github.com/aws/aws-sdk-go-v2/service/cloudformation"
	"github.com/aws/aws-sdk-go-v2/service/organizations"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3control"
	"github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/hashicorp/terraform-provider-aws/internal/errs"
	"github.com/hashicorp/terraform-provider-aws/names"
)

func (c *AWSClient) AccountClient(ctx context.Context) *account.Client {
	return errs.Must(client[*account.Client](ctx, c, names.Account, make(map[string]any)))
}

func (c *AWSClient) CloudFormationClient(ctx context.Context) *cloudformation.Client {
	return errs.Must(client[*cloudformation.Client](ctx, c, names.CloudFormation, make(map[string]any)))
}

func (c *AWSClient) OrganizationsClient(ctx context.Context) *organizations.Client {
	return errs.Must(client[*organizations.Client](ctx, c, names.Organizations, make(map[string]any)))
}

func (c *AWSClient) S3Client(ctx context.Context) *s3.Client {
	return errs.Must(client[*s3.Client](ctx, c, names.S3, make(map[string]any)))
}

func (c *AWSClient) S3ControlClient(ctx context.Context) *s3control.Client {
	return errs.Must(client[*s3control.Client](ctx, c, names.S3Control, make(map[string]any)))
}

func (c *AWSClient) STSClient(ctx context.Context) *sts.Client {
	return errs.Must(client[*sts.Client](ctx, c, names.STS, make(map[string]any)))
}
