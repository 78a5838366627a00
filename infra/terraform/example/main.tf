# driftless from the files of a release, which `gh release download` has put into `release/`, with
# alarms to a topic of SNS.

provider "aws" {
  region = "eu-west-1"
}

resource "aws_sns_topic" "alarms" {
  name = "driftless-alarms"
}

module "driftless" {
  source = "github.com/driftless-dev/driftless//infra/terraform?ref=v0.1.0"

  template = "release/template-arm64.yaml"
  zips = {
    for name in ["webhook", "reconcile", "drift", "capsule", "dashboard", "plan"] :
    name => "release/${name}-arm64.zip"
  }

  alarm_topic = aws_sns_topic.alarms.arn
  plans       = true
  tags        = { application = "driftless" }
}

output "webhook_url" {
  description = "The payload URL of the webhook"
  value       = module.driftless.webhook_url
}

output "environment" {
  description = "The environment of driftless bootstrap"
  value = {
    DRIFTLESS_BUCKET    = module.driftless.bucket
    DRIFTLESS_QUEUE_URL = module.driftless.queue_url
  }
}
