<?php

use Illuminate\Database\Migrations\Migration;
use Illuminate\Database\Schema\Blueprint;
use Illuminate\Support\Facades\Schema;

return new class extends Migration {
    public function up(): void
    {
        Schema::connection(config('pillion.approvals.connection'))
            ->table(config('pillion.approvals.table', 'pillion_approvals'), function (Blueprint $table): void {
                $table->longText('approved_arguments')->nullable();
            });
    }

    public function down(): void
    {
        Schema::connection(config('pillion.approvals.connection'))
            ->table(config('pillion.approvals.table', 'pillion_approvals'), function (Blueprint $table): void {
                $table->dropColumn('approved_arguments');
            });
    }
};
