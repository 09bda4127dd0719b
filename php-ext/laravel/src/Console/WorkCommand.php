<?php

declare(strict_types=1);

namespace Pillion\Laravel\Console;

use Illuminate\Console\Command;
use Illuminate\Contracts\Config\Repository;
use Pillion\Exception\PillionException;
use Pillion\Laravel\EventBridge;
use Pillion\Laravel\PillionManager;
use Pillion\Laravel\RequestServices;
use Pillion\Laravel\Work\CallMiddleware;
use Pillion\Laravel\Work\CallScope;
use Pillion\Laravel\Work\WorkerLog;
use Pillion\Laravel\Work\WorkerTools;
use Pillion\Worker;
use Pillion\Worker\StopReason;

final class WorkCommand extends Command
{
    use RejectsEmptyOptions;

    /** The exit code after the memory limit was exceeded; the same as that of `queue:work`. */
    private const EXIT_MEMORY_LIMIT = 12;

    protected $signature = 'pillion:work
        {--max-calls=0 : Stop after this many calls; 0 for no limit}
        {--max-time=0 : Stop after this many seconds; 0 for no limit}
        {--memory=128 : Stop after a call if the process uses this many megabytes; 0 for no limit}
        {--name= : The name of the worker in listings of the sidecar; default: the name of the application}';

    protected $description = 'Offer the application\'s tools to the sidecar and run its calls';

    public function handle(PillionManager $pillion, Repository $config, WorkerTools $workerTools): int
    {
        $limits = [];
        foreach (['max-calls', 'max-time', 'memory'] as $option) {
            $limit = filter_var($this->option($option), FILTER_VALIDATE_INT, ['options' => ['min_range' => 0]]);
            if ($limit === false) {
                $this->error("--$option must be a whole number of at least 0.");
                return self::INVALID;
            }
            $limits[] = $limit === 0 ? null : $limit;
        }
        [$maxCalls, $maxSeconds, $maxMegabytes] = $limits;
        $logger = new WorkerLog($this->output, RequestServices::current()->log());
        $name = (string) ($this->option('name') ?? $config->get('app.name', ''));
        $applicationTools = $pillion->registry(withServers: false);
        try {
            $worker = new Worker(name: mb_substr($name, 0, 100) ?: null);
            $workerTools->addTools($worker, $applicationTools);
            if ($worker->getTools() === []) {
                $this->error('The application has no tools: create one with php artisan make:pillion-tool.');
                return self::FAILURE;
            }
            $middleware = new CallMiddleware($this->laravel, $applicationTools, new CallScope($this->laravel));
            $worker->setLogger($logger)->setEventDispatcher(new EventBridge())->around($middleware);
            $stopReason = $worker->run($maxCalls, $maxSeconds, $maxMegabytes === null ? null : $maxMegabytes * 1024 * 1024);
        } catch (PillionException $exception) {
            $this->error(TerminalText::escape($exception->getMessage()));
            return self::FAILURE;
        }
        return $stopReason === StopReason::Memory ? self::EXIT_MEMORY_LIMIT : self::SUCCESS;
    }
}
