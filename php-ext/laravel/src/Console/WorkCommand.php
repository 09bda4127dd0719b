<?php

declare(strict_types=1);

namespace Pillion\Laravel\Console;

use Illuminate\Console\Command;
use Illuminate\Contracts\Config\Repository;
use Pillion\Exception\PillionException;
use Pillion\Laravel\EventBridge;
use Pillion\Laravel\PillionManager;
use Pillion\Laravel\Work\AroundCall;
use Pillion\Laravel\Work\CallScope;
use Pillion\Laravel\Work\Offering;
use Pillion\Laravel\Work\WorkLog;
use Pillion\Laravel\Workshop;
use Pillion\Worker;
use Pillion\Worker\StopReason;

final class WorkCommand extends Command
{
    /** The exit code that `queue:work` uses for the same reason. */
    private const TOO_LARGE = 12;

    protected $signature = 'pillion:work
        {--max-calls=0 : End after so many calls; 0 for no limit}
        {--max-time=0 : End after so many seconds; 0 for no limit}
        {--memory=128 : End after a call with which the process has so many megabytes; 0 for no limit}
        {--name= : What it is called in listings of the sidecar; else the application\'s name}';

    protected $description = 'Offer the application\'s tools to the sidecar, and run its calls of them';

    public function handle(PillionManager $pillion, Repository $config, Offering $offering): int
    {
        $limits = [];
        foreach (['max-calls', 'max-time', 'memory'] as $option) {
            $limit = filter_var($this->option($option), FILTER_VALIDATE_INT, ['options' => ['min_range' => 0]]);
            if ($limit === false) {
                $this->error("--$option is no number.");
                return self::INVALID;
            }
            $limits[] = $limit === 0 ? null : $limit;
        }
        [$calls, $seconds, $megabytes] = $limits;
        $log = new WorkLog($this->output, Workshop::current()->log());
        $name = (string) ($this->option('name') ?? $config->get('app.name', ''));
        $socket = $config->get('pillion.sidecar.socket');
        $application = $pillion->registry(withServers: false);
        try {
            $worker = new Worker($socket === '' ? null : $socket, mb_substr($name, 0, 100) ?: null);
            $offering->addTo($worker, $application);
            if ($worker->getTools() === []) {
                $this->error('The application has no tools of its own: php artisan make:pillion-tool makes one.');
                return self::FAILURE;
            }
            $around = new AroundCall($this->laravel, $application, new CallScope($this->laravel));
            $worker->setLogger($log)->setEventDispatcher(new EventBridge())->around($around);
            $reason = $worker->run($calls, $seconds, $megabytes === null ? null : $megabytes * 1024 * 1024);
        } catch (PillionException $e) {
            $this->error(Shown::lines($e->getMessage()));
            return self::FAILURE;
        }
        return $reason === StopReason::Memory ? self::TOO_LARGE : self::SUCCESS;
    }
}
