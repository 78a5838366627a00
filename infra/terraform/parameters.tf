# The parameters of ../template.yaml. A test writes this file from it.

locals {
  parameters = {
    AlarmTopic         = var.alarm_topic
    Architecture       = var.architecture
    AzureAuthorityHost = var.azure_authority_host
    BatchSize          = var.batch_size
    Capsule            = var.capsule
    Concurrency        = var.concurrency
    Dashboard          = var.dashboard
    DashboardAccess    = var.dashboard_access
    DashboardOrigin    = var.dashboard_origin
    EcrRepositories    = join(",", var.ecr_repositories)
    EksClusters        = join(",", var.eks_clusters)
    EncryptionKey      = var.encryption_key
    GitHubApi          = var.github_api
    GitHubHosts        = var.github_hosts
    Hub                = var.hub
    IsolatedMemory     = var.isolated_memory
    KmsKeys            = join(",", var.kms_keys)
    LogLevel           = var.log_level
    LogRetentionDays   = var.log_retention_days
    Metrics            = var.metrics
    OtlpEndpoint       = var.otlp_endpoint
    OtlpHeadersSecret  = var.otlp_headers_secret
    PlanMemory         = var.plan_memory
    Plans              = var.plans
    Receivers          = var.receivers
    ReconcileMemory    = var.reconcile_memory
    RouteTableIds      = join(",", var.route_table_ids)
    SecretsPrefix      = var.secrets_prefix
    SecurityGroupIds   = join(",", var.security_group_ids)
    SubnetIds          = join(",", var.subnet_ids)
    SweepConcurrency   = var.sweep_concurrency
    SweepMemory        = var.sweep_memory
    Tracing            = var.tracing
    VpcId              = var.vpc_id
    WebhookConcurrency = var.webhook_concurrency
  }
}

variable "alarm_topic" {
  description = "ARN of an SNS topic that receives the alarms; empty for no alarms"
  type        = string
  default     = ""
}

variable "architecture" {
  description = "The architecture that the functions were built for (`cargo lambda build --arm64`)"
  type        = string
  default     = "arm64"

  validation {
    condition     = contains(["arm64", "x86_64"], var.architecture)
    error_message = "Allowed values: arm64, x86_64."
  }
}

variable "azure_authority_host" {
  description = "URL of Entra ID for Azure's clusters, such as https://login.microsoftonline.us/; empty for the public cloud"
  type        = string
  default     = ""
}

variable "batch_size" {
  description = "Maximum number of steps in a batch; infra/README.md lists the memory that they need"
  type        = number
  default     = 5

  validation {
    condition     = var.batch_size >= 1 && var.batch_size <= 10
    error_message = "The value must be from 1 to 10."
  }
}

variable "capsule" {
  description = "true deploys the function for hubs with Capsule (driftless bootstrap --capsule-proxy): owners of Tenants get kubeconfigs, as from capsule-addon-fluxcd"
  type        = bool
  default     = false
}

variable "concurrency" {
  description = "Maximum number of batches of steps that run concurrently"
  type        = number
  default     = 100

  validation {
    condition     = var.concurrency >= 2 && var.concurrency <= 1000
    error_message = "The value must be from 2 to 1000."
  }
}

variable "dashboard" {
  description = "Deploys the dashboard for users of this service: github, the address of a GitHub Enterprise Server as github=https://HOST, or the issuer of an OpenID Connect provider as https://HOST/...; empty for no dashboard. The function, which the internet reaches, may then read the kubeconfigs of the hubs"
  type        = string
  default     = ""
}

variable "dashboard_access" {
  description = "Who sees which namespaces of the dashboard, as a JSON list: [{\"groups\": [\"acme/web\"], \"namespaces\": [\"web\"], \"actions\": true}]"
  type        = string
  default     = "[]"
}

variable "dashboard_origin" {
  description = "The origin of the dashboard behind a domain of your own, such as https://gitops.example.com; empty for that of the function's URL"
  type        = string
  default     = ""
}

variable "ecr_repositories" {
  description = "ARNs of ECR repositories that sources read with the functions' own role (--allow-role-registry), such as arn:aws:ecr:eu-west-1:012345678901:repository/charts/*"
  type        = list(string)
  default     = []
}

variable "eks_clusters" {
  description = "ARNs of EKS clusters that objects work on with the functions' own roles (--allow-role-cluster); each role also needs an access entry there"
  type        = list(string)
  default     = []
}

variable "encryption_key" {
  description = "The key that encrypts the bucket, the queues and the logs: empty for keys that AWS owns, stack for a key that the stack creates, or the ARN of another key in the same region"
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^(stack|arn:[^:]+:kms:[^:]+:[0-9]+:key/.+)?$", var.encryption_key))
    error_message = "The value must match (stack|arn:[^:]+:kms:[^:]+:[0-9]+:key/.+)?"
  }
}

variable "github_api" {
  description = "URL of the API of github.com; empty for the public one"
  type        = string
  default     = ""
}

variable "github_hosts" {
  description = "More hosts with GitHub's API, such as GitHub Enterprise servers: git.acme.example=https://git.acme.example/api/v3, separated by commas"
  type        = string
  default     = ""
}

variable "hub" {
  description = "The one hub that the stack serves: its roles read the secrets of this hub alone, and its functions refuse other hubs; empty to serve all hubs that are registered in the bucket"
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^([A-Za-z0-9_-][A-Za-z0-9_.-]*)?$", var.hub))
    error_message = "The value must match ([A-Za-z0-9_-][A-Za-z0-9_.-]*)?"
  }
}

variable "isolated_memory" {
  description = "Memory in MB for the step of an object whose steps were cut off, which runs alone; new accounts of AWS allow at most 3008"
  type        = number
  default     = 3008

  validation {
    condition     = var.isolated_memory >= 256 && var.isolated_memory <= 10240
    error_message = "The value must be from 256 to 10240."
  }
}

variable "kms_keys" {
  description = "ARNs of keys of AWS KMS that SOPS files are decrypted with by the role of the reconcile function, and of the plan function (--allow-role-key)"
  type        = list(string)
  default     = []
}

variable "log_level" {
  description = "A tracing filter, such as info or driftless=debug,info"
  type        = string
  default     = "info"
}

variable "log_retention_days" {
  description = "Days for which logs are kept"
  type        = number
  default     = 30

  validation {
    condition     = contains([1, 3, 5, 7, 14, 30, 60, 90, 180, 365], var.log_retention_days)
    error_message = "Allowed values: 1, 3, 5, 7, 14, 30, 60, 90, 180, 365."
  }
}

variable "metrics" {
  description = "true makes CloudWatch metrics of the functions' logs, in the namespace driftless/STACK; infra/README.md lists them and what they cost"
  type        = bool
  default     = false
}

variable "otlp_endpoint" {
  description = "URL of a collector of OpenTelemetry that receives the functions' traces by OTLP over HTTP, such as https://otlp.example.com:4318; empty for no traces"
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^(https?://.+)?$", var.otlp_endpoint))
    error_message = "The value must match (https?://.+)?"
  }
}

variable "otlp_headers_secret" {
  description = "Name below SecretsPrefix of the secret with the headers for OtlpEndpoint, such as otlp/headers: NAME=VALUE, separated by commas; empty for none"
  type        = string
  default     = ""

  validation {
    condition     = can(regex("^[A-Za-z0-9/_+=.@-]*$", var.otlp_headers_secret))
    error_message = "The value must match [A-Za-z0-9/_+=.@-]*"
  }
}

variable "plan_memory" {
  description = "Memory for a plan in MB, which has two states of all hubs of a repository; Lambda assigns CPU in proportion"
  type        = number
  default     = 3008

  validation {
    condition     = var.plan_memory >= 512 && var.plan_memory <= 10240
    error_message = "The value must be from 512 to 10240."
  }
}

variable "plans" {
  description = "true deploys the function for pull requests of the hubs' root repositories: a comment and a check run say what the change would do. infra/README.md lists what the GitHub App needs"
  type        = bool
  default     = false
}

variable "receivers" {
  description = "true serves the webhooks of Flux's Receivers: the webhook function, which the internet reaches, may then read the kubeconfigs of the hubs"
  type        = bool
  default     = false
}

variable "reconcile_memory" {
  description = "Memory for a batch of steps in MB; Lambda assigns CPU in proportion"
  type        = number
  default     = 1024

  validation {
    condition     = var.reconcile_memory >= 256 && var.reconcile_memory <= 10240
    error_message = "The value must be from 256 to 10240."
  }
}

variable "route_table_ids" {
  description = "Route tables of SubnetIds, for the endpoint of S3; required with VpcId"
  type        = list(string)
  default     = []
}

variable "secrets_prefix" {
  description = "Prefix of the names in Secrets Manager: github/webhook, gitlab/webhook, gitea/webhook, bitbucket/webhook, azuredevops/webhook, github/app, hubs/NAME (a kubeconfig), tenants/HUB/NAMESPACE (decryption keys), remotes/HUB/NAMESPACE/SECRET (a kubeconfig)"
  type        = string
  default     = "driftless/"

  validation {
    condition     = can(regex("^[A-Za-z0-9/_+=.@-]+/$", var.secrets_prefix))
    error_message = "The value must match [A-Za-z0-9/_+=.@-]+/"
  }
}

variable "security_group_ids" {
  description = "Security groups of the functions and of the endpoints that VpcId creates; required with SubnetIds"
  type        = list(string)
  default     = []
}

variable "subnet_ids" {
  description = "Private subnets of a VPC for the functions; empty for functions outside of a VPC. infra/README.md lists what they must reach."
  type        = list(string)
  default     = []
}

variable "sweep_concurrency" {
  description = "Maximum number of hubs that are swept concurrently"
  type        = number
  default     = 10

  validation {
    condition     = var.sweep_concurrency >= 2 && var.sweep_concurrency <= 1000
    error_message = "The value must be from 2 to 1000."
  }
}

variable "sweep_memory" {
  description = "Memory for the sweep of a hub in MB; infra/README.md lists what a sweep needs"
  type        = number
  default     = 1024

  validation {
    condition     = var.sweep_memory >= 256 && var.sweep_memory <= 10240
    error_message = "The value must be from 256 to 10240."
  }
}

variable "tracing" {
  description = "Active sends a trace of X-Ray for a sample of the invocations; PassThrough only for those whose caller asks for it"
  type        = string
  default     = "PassThrough"

  validation {
    condition     = contains(["PassThrough", "Active"], var.tracing)
    error_message = "Allowed values: PassThrough, Active."
  }
}

variable "vpc_id" {
  description = "The VPC of SubnetIds, for which the stack creates endpoints of S3, SQS, Secrets Manager and STS; empty for none"
  type        = string
  default     = ""
}

variable "webhook_concurrency" {
  description = "Reserved concurrency of the webhook, which is also its limit; 0 for none. Its URL is public: a limit keeps a flood of requests from using up the concurrency of the account's other functions."
  type        = number
  default     = 0

  validation {
    condition     = var.webhook_concurrency >= 0 && var.webhook_concurrency <= 1000
    error_message = "The value must be from 0 to 1000."
  }
}
