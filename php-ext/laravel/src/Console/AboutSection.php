<?php

declare(strict_types=1);

namespace Pillion\Laravel\Console;

use Illuminate\Contracts\Config\Repository;
use Pillion\Laravel\ConfigReader;
use Pillion\Laravel\Servers\ServerDirectory;
use Pillion\Sidecar;

/** Pillion's section of `php artisan about` (Laravel 9.21 and later). Contacts no servers. */
final class AboutSection
{
    public function __construct(private readonly Repository $config, private readonly ServerDirectory $servers)
    {
    }

    /** @return array<string, string> */
    public function lines(): array
    {
        $version = phpversion('pillion');
        return [
            'Runs on' => $version === false ? 'the library in plain PHP' : "the extension, version $version",
            'Servers' => implode(', ', $this->servers->names()) ?: 'none',
            'Approvals' => ConfigReader::read($this->config, 'approvals.policy', 'auto') . ', stored in the '
                . ConfigReader::read($this->config, 'approvals.driver', 'cache'),
            'Sidecar' => (new Sidecar())->getSocketPath(),
            'Log' => match ($channel = ConfigReader::readLogChannel($this->config)) {
                null => 'the default channel',
                false => 'none',
                default => $channel,
            },
        ];
    }
}
